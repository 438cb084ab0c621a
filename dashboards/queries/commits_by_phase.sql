-- How many commits did each phase read, and how many of them for the first time?
-- The phases of each specialist are in the order in which its model was trained.
SELECT model_specialist AS specialist, phase, count(DISTINCT "commit") AS commits,
       count(DISTINCT "commit") FILTER (WHERE is_first) AS new_commits,
       count(DISTINCT repository) AS repositories
FROM (
    SELECT model_specialist, phase, repository, "commit", back,
           back = max(back) OVER (PARTITION BY model_specialist, repository, "commit") AS is_first
    FROM consumed_until('templates/*/anneal', 1000000000)
)
GROUP BY model_specialist, phase
ORDER BY specialist, max(back) DESC
