-- Under which licences stands what templates ate?
-- Tokens and documents by licence; a text that stands under two counts under both. No licence: none was found.
SELECT coalesce(l.licence, 'none found') AS licence, count(DISTINCT l.document_id) AS documents,
       count(DISTINCT l."commit") AS commits, sum(l.tokens)::BIGINT AS tokens
FROM (
    SELECT DISTINCT run_key, attempt, position, doc, document_id, licence, "commit", tokens
    FROM lineage
    WHERE specialist = 'templates'
) l
GROUP BY ALL
ORDER BY tokens DESC
