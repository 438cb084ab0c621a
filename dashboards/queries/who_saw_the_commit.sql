-- Which steps read a commit?
-- The example uses the commit that most steps read. Replace it with the first digits of another commit.
SELECT specialist, phase, run_key, step, rows, documents, tokens
FROM consumers((
    SELECT "commit" FROM lineage GROUP BY "commit"
    ORDER BY count(DISTINCT (run, step)) DESC, "commit" LIMIT 1
))
