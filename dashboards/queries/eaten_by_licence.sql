-- Under which licences stands what templates ate?
-- Documents, commits and tokens by branch and licence; a text that stands under two of them counts under both.
SELECT branch, coalesce(licence, 'none found') AS licence, count(DISTINCT document_id) AS documents,
       count(DISTINCT "commit") AS commits, sum(tokens) FILTER (WHERE is_first)::BIGINT AS tokens
FROM (
    SELECT *, row_number() OVER (
        PARTITION BY run, position, doc, licence ORDER BY "commit") = 1 AS is_first
    FROM lineage
    WHERE specialist = 'templates'
)
GROUP BY ALL
ORDER BY branch NULLS FIRST, tokens DESC, licence
