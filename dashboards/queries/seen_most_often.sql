-- Which documents did a specialist see most often?
-- Counts over all phases. A divided document counts once for each row that contains a piece of it.
SELECT l.specialist, l.document_id, l.family, l.repository, l.path, count(DISTINCT (l.run, l.position)) AS times,
       count(DISTINCT l.phase) AS phases
FROM lineage l
GROUP BY l.specialist, l.document_id, l.family, l.repository, l.path
QUALIFY row_number() OVER (PARTITION BY l.specialist ORDER BY times DESC, l.document_id) <= 50
ORDER BY l.specialist, times DESC, l.document_id
