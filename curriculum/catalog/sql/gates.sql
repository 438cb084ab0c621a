-- The gates that walks through the phases stopped at.

CREATE TABLE internal.closed_gates AS
SELECT * FROM $closed_gates;

CREATE VIEW gates AS
SELECT p.specialist, p.phase, g.kind, g.why, g.cure, g.run
FROM internal.closed_gates g
JOIN status p ON p.run = g.run
JOIN artefacts a ON a.path = g.run AND a.content = g.content;
COMMENT ON VIEW gates IS
    'closed gates behind runs in use: holds or waits (for an approval), why, and the command that helps';
