-- Is any file in both training and validation rows?
-- File lineages with documents in training rows and in validation rows. The result must be empty.
SELECT d.lineage, count(DISTINCT r.document_id) FILTER (WHERE r.split = 'train') AS in_train,
       count(DISTINCT r.document_id) FILTER (WHERE r.split <> 'train') AS in_val
FROM row_documents r JOIN documents d ON d.document_id = r.document_id
GROUP BY d.lineage
HAVING in_train > 0 AND in_val > 0
ORDER BY d.lineage
