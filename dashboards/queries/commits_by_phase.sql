-- How many commits did each phase see, and how many for the first time?
SELECT phase, count(*) AS commits, count(*) FILTER (WHERE is_new) AS new_commits,
       count(DISTINCT repository) AS repositories
FROM (
    SELECT DISTINCT l.phase, l.repository, l."commit",
           a.back = max(a.back) OVER (PARTITION BY l.repository, l."commit") AS is_new
    FROM ancestry a
    JOIN lineage l ON l.run_key = a.before_key AND l.attempt = a.before_attempt
        AND l.step <= a.until_step
    WHERE (a.run_key, a.attempt) IN (FROM run_named('templates/anneal'))
)
GROUP BY phase
ORDER BY commits DESC, phase
