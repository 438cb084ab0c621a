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
WITH RECURSIVE __links AS (
    SELECT __r.place, 'mixtures' AS before_stage, __r.place AS before_place, 'its mixture is stale' AS why
    FROM internal.marked __r WHERE __r.stage = 'runs'
    UNION ALL
    SELECT __r.place, 'runs', left(__r.place, length(__r.place) - length(__r.phase)) || __p.phase,
           'it goes on from ' || __p.phase || ', which is stale'
    FROM internal.marked __r
    JOIN internal.ingredients __i ON __i.key = __r.key AND __i.name = 'previous'
    JOIN (SELECT DISTINCT __a.key, __a.phase FROM main.artefacts __a WHERE __a.stage = 'runs') __p
    ON __p.key = __i.input_key
    WHERE __r.stage = 'runs' AND __p.phase <> __r.phase
), __known AS (
    SELECT __o.stage, __o.place, __o.why, 0 AS far FROM internal.outdated __o
    UNION ALL
    SELECT 'runs', __l.place, __l.why, __k.far + 1
    FROM __known __k JOIN __links __l ON __l.before_stage = __k.stage AND __l.before_place = __k.place
)
SELECT __m.stage, __m.specialist, __m.branch, __m.phase, __m.key, __m.path, arg_min(__k.why, __k.far) AS why
FROM __known __k JOIN internal.marked __m ON __m.stage = __k.stage AND __m.place = __k.place
GROUP BY ALL
ORDER BY ALL;
COMMENT ON MACRO TABLE stale IS
    'mixtures and runs in use although something newer took the place of what they were made of, and why';
