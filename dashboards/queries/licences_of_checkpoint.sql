-- Which licences are in the checkpoint that templates ended with?
-- All that its model has read, in this phase and all before it.
SELECT l.licence, count(DISTINCT l.repository) AS repositories, count(DISTINCT l."commit") AS commits,
       count(DISTINCT l.document_id) AS documents, min(l.phase) AS a_phase
FROM seen_before('templates/anneal', 1_000_000_000) s
JOIN lineage l ON l.run_key = s.run_key AND l.attempt = s.attempt AND l.position = s.position
GROUP BY ALL
ORDER BY commits DESC
