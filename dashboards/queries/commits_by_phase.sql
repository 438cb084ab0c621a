-- How many commits did each phase see, and how many of them for the first time?
-- Of each branch, phases in the order in which its model went through them.
SELECT model_branch AS branch, phase, count(DISTINCT "commit") AS commits,
       count(DISTINCT "commit") FILTER (WHERE is_first) AS new_commits,
       count(DISTINCT repository) AS repositories
FROM (
    SELECT model_branch, phase, repository, "commit", back,
           back = max(back) OVER (PARTITION BY model_branch, repository, "commit") AS is_first
    FROM consumed_until('templates/*/anneal', 1000000000)
)
GROUP BY model_branch, phase
ORDER BY branch NULLS FIRST, max(back) DESC
