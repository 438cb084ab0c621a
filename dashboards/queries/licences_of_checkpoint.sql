-- Which licences are in the checkpoint that templates ended with?
-- All that its model has read, in the anneal and in all phases before it; put a step in the place of the large number
-- for an earlier checkpoint.
SELECT model_specialist AS specialist, coalesce(licence, 'none found') AS licence, count(DISTINCT repository) AS repositories,
       count(DISTINCT "commit") AS commits, count(DISTINCT document_id) AS documents
FROM consumed_until('templates/*/anneal', 1000000000)
GROUP BY ALL
ORDER BY specialist, commits DESC, licence
