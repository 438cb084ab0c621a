-- Which licences does the training data of the final templates checkpoint have?
-- Everything that the model read in the anneal and in all phases before it. For an earlier checkpoint, replace the large
-- number with a step.
SELECT model_specialist AS specialist, coalesce(licence, 'none found') AS licence, count(DISTINCT repository) AS repositories,
       count(DISTINCT "commit") AS commits, count(DISTINCT document_id) AS documents
FROM consumed_until('templates/*/anneal', 1000000000)
GROUP BY ALL
ORDER BY specialist, commits DESC, licence
