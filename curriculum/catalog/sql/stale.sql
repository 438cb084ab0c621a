-- What stands although something newer has taken the place of what it was made of.

CREATE VIEW internal.ingredients AS
SELECT DISTINCT key, name, input_key, input_content FROM main.inputs
WHERE stage IN ('mixtures', 'runs');

CREATE VIEW internal.marked AS
SELECT p.stage, p.place, p.specialist, p.branch, p.phase, a.key, a.content, a.path
FROM internal.places p JOIN main.artefacts a ON a.path = p.path;

CREATE VIEW internal.outdated AS
SELECT 'mixtures' AS stage, m.place,
       'its rows were built anew: ' || string_agg(i.name, ', ' ORDER BY i.name) AS why
FROM internal.marked m
JOIN internal.ingredients i ON i.key = m.key
WHERE m.stage = 'mixtures'
  AND EXISTS (FROM main.marks b WHERE starts_with(b.mark, 'build-' || m.place || '-of-'))
  AND NOT EXISTS (
      FROM main.marks b JOIN main.artefacts a ON a.path = b.path
      WHERE starts_with(b.mark, 'build-' || m.place || '-of-') AND a.content = i.input_content)
GROUP BY ALL
UNION ALL
SELECT 'runs', r.place, 'its mixture was made anew'
FROM internal.marked r
JOIN internal.ingredients i ON i.key = r.key AND i.name = 'plan'
JOIN internal.marked m ON m.stage = 'mixtures' AND m.place = r.place
WHERE r.stage = 'runs' AND m.content <> i.input_content
UNION ALL
SELECT 'runs', r.place, 'the run of ' || b.phase || ' that it goes on from was made anew'
FROM internal.marked r
JOIN internal.ingredients i ON i.key = r.key AND i.name = 'previous'
JOIN (SELECT DISTINCT key, phase FROM main.artefacts WHERE stage = 'runs') p
    ON p.key = i.input_key
JOIN internal.marked b ON b.stage = 'runs' AND b.phase = p.phase
    AND b.place = left(r.place, length(r.place) - length(r.phase)) || p.phase
WHERE r.stage = 'runs' AND p.phase <> r.phase AND b.content <> i.input_content;

CREATE MACRO stale() AS TABLE
WITH RECURSIVE links AS (
    SELECT r.place, 'mixtures' AS before_stage, r.place AS before_place, 'its mixture is stale' AS why
    FROM internal.marked r WHERE r.stage = 'runs'
    UNION ALL
    SELECT r.place, 'runs', left(r.place, length(r.place) - length(r.phase)) || p.phase,
           'it goes on from ' || p.phase || ', which is stale'
    FROM internal.marked r
    JOIN internal.ingredients i ON i.key = r.key AND i.name = 'previous'
    JOIN (SELECT DISTINCT key, phase FROM main.artefacts WHERE stage = 'runs') p
    ON p.key = i.input_key
    WHERE r.stage = 'runs' AND p.phase <> r.phase
), known AS (
    SELECT o.stage, o.place, o.why, 0 AS far FROM internal.outdated o
    UNION ALL
    SELECT 'runs', l.place, l.why, k.far + 1
    FROM known k JOIN links l ON l.before_stage = k.stage AND l.before_place = k.place
)
SELECT m.stage, m.specialist, m.branch, m.phase, m.key, m.path, arg_min(k.why, k.far) AS why
FROM known k JOIN internal.marked m ON m.stage = k.stage AND m.place = k.place
GROUP BY ALL
ORDER BY ALL;
COMMENT ON MACRO TABLE stale IS
    'mixtures and runs in use although something newer took the place of what they were made of, and why';
