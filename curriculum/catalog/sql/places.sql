-- Who uses what: a specialist may continue from a run that lies with another, whose phase is the same.
CREATE TABLE internal.places AS
SELECT m.stage, m.place, coalesce(w.specialist, m.mark) AS specialist, m.phase, m.path
FROM (
    SELECT split_part(b.mark, '-', 1) AS stage, a.phase, a.path, a.specialist,
           substr(b.mark, length(split_part(b.mark, '-', 1)) + 2) AS place,
           left(place, length(place) - length(a.phase) - 1) AS mark
    FROM marks b JOIN artefacts a ON a.path = b.path
    WHERE split_part(b.mark, '-', 1) IN ('mixtures', 'runs')
) m
LEFT JOIN (
    SELECT specialist FROM artefacts WHERE specialist IS NOT NULL
    UNION SELECT specialist FROM status
) w ON replace(w.specialist, '/', '-') = m.mark
QUALIFY row_number() OVER (
    PARTITION BY m.stage, m.place ORDER BY w.specialist = m.specialist DESC NULLS LAST) = 1;
