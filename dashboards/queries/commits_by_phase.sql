-- How many commits did each phase see, and how many of them for the first time?
-- Phases in the order in which the model went through them.
SELECT phase, count(DISTINCT "commit") AS commits,
       count(DISTINCT "commit") FILTER (WHERE is_first) AS new_commits,
       count(DISTINCT repository) AS repositories
FROM (
    SELECT phase, repository, "commit", back,
           back = max(back) OVER (PARTITION BY repository, "commit") AS is_first
    FROM consumed_until('templates/anneal', 1000000000)
)
GROUP BY phase
ORDER BY max(back) DESC
