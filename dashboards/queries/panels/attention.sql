-- Which phases and artefacts need attention, and what helps?
-- Unreadable artefacts and failures first, then interrupted, stopped or waiting phases, stale phases, and warnings of mixtures.
SELECT 1 AS urgency, 'unreadable' AS kind, path AS what, problem AS why, 'curriculum check ' || path AS cure,
       NULL AS specialist, NULL AS phase
FROM problems
UNION ALL
SELECT CASE state WHEN 'failed' THEN 2 WHEN 'interrupted' THEN 3 ELSE 5 END, state,
       concat_ws('/', specialist, phase), why, 'curriculum run ' || replace(specialist, '/', '.'),
       specialist, phase
FROM status WHERE state IN ('failed', 'interrupted', 'stale')
UNION ALL
SELECT 4, kind, concat_ws('/', specialist, phase), why, cure, specialist, phase FROM gates
UNION ALL
SELECT 6, 'warning', concat_ws('/', specialist, string_agg(phase, ', ' ORDER BY created)), warning,
       'curriculum diet check ' || replace(specialist, '/', '.'), specialist, NULL
FROM (
    SELECT specialist, phase, created, unnest(warnings) AS warning FROM mixtures WHERE current
) GROUP BY specialist, warning
UNION ALL
SELECT 7, 'next', concat_ws('/', specialist, phase), 'mixed, and not trained yet',
       'curriculum run ' || replace(specialist, '/', '.'), specialist, phase
FROM status p WHERE mixture IS NOT NULL AND run IS NULL AND NOT EXISTS (
    FROM attempts r
    WHERE r.state = 'running' AND r.specialist = p.specialist
)
ORDER BY urgency, what, why
