-- Which steps saw a commit?
-- Here the one that most steps saw; put any other's first digits in its place.
SELECT specialist, phase, run_key, step, rows, documents, tokens
FROM consumers((
    SELECT "commit" FROM lineage GROUP BY "commit"
    ORDER BY count(DISTINCT (run, step)) DESC, "commit" LIMIT 1
))
