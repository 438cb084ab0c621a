-- What needs a hand, and what helps?
-- What can't be read and what failed first, then what stands still or waits, what is stale, and what a mixture warns of.
SELECT 1 AS urgency, 'unreadable' AS kind, path AS what, problem AS why, 'curriculum check ' || path AS cure,
       NULL AS specialist, NULL AS branch, NULL AS phase
FROM problems
UNION ALL
SELECT 2, stopped, concat_ws('/', specialist, branch, phase), reason,
       'curriculum run ' || concat_ws('.', specialist, branch), specialist, branch, phase
FROM runs WHERE current AND stopped IN ('failed', 'cancelled')
UNION ALL
SELECT 3, state, concat_ws('/', specialist, branch, phase),
       format('step {} of {}', coalesce(steps, 0), planned_steps),
       'curriculum run ' || concat_ws('.', specialist, branch), specialist, branch, phase
FROM runs WHERE state = 'interrupted'
UNION ALL
SELECT 4, kind, concat_ws('/', specialist, branch, phase), why, cure, specialist, branch, phase FROM gates
UNION ALL
SELECT 5, 'stale', concat_ws('/', specialist, branch, phase), why,
       'curriculum run ' || concat_ws('.', specialist, branch), specialist, branch, phase
FROM stale()
UNION ALL
SELECT 6, 'warning', concat_ws('/', specialist, branch, string_agg(phase, ', ' ORDER BY created)), warning,
       'curriculum diet check ' || concat_ws('.', specialist, branch), specialist, branch, NULL
FROM (
    SELECT specialist, branch, phase, created, unnest(warnings) AS warning FROM mixtures WHERE current
) GROUP BY specialist, branch, warning
UNION ALL
SELECT 7, 'next', concat_ws('/', specialist, branch, phase), 'mixed, and not trained yet',
       'curriculum run ' || concat_ws('.', specialist, branch), specialist, branch, phase
FROM phases p WHERE state = 'mixed' AND NOT EXISTS (
    FROM runs r
    WHERE r.state = 'running' AND r.specialist = p.specialist AND r.branch IS NOT DISTINCT FROM p.branch
)
ORDER BY urgency, what, why
