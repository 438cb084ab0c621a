-- Which licences does the training data of each specialist have?
-- Documents, commits and tokens by licence. A text with two licences counts under both.
SELECT specialist, coalesce(licence, 'none found') AS licence, count(DISTINCT document_id) AS documents,
       count(DISTINCT "commit") AS commits, sum(tokens) FILTER (WHERE is_first)::BIGINT AS tokens
FROM (
    SELECT *, row_number() OVER (
        PARTITION BY run, position, doc, licence ORDER BY "commit") = 1 AS is_first
    FROM lineage
)
GROUP BY ALL
ORDER BY specialist, tokens DESC, licence
