-- Which repositories does each mixture read, and how much of each?
-- Tokens of the plan by the repository of their document; a document from several repositories counts for the first.
SELECT x.specialist, x.phase, d.repository, sum((r.token_end - r.token_start) * x.times)::BIGINT AS tokens,
       count(DISTINCT r.document_id) AS documents
FROM (
    SELECT specialist, phase, rows_key, pack_id, count(*) AS times FROM mixture_rows GROUP BY ALL
) x
JOIN row_documents r ON r.rows_key = x.rows_key AND r.pack_id = x.pack_id
JOIN (
    SELECT document_id, min(provenance[1].repository) AS repository FROM documents GROUP BY document_id
) d ON d.document_id = r.document_id
GROUP BY x.specialist, x.phase, d.repository
ORDER BY x.specialist, x.phase, tokens DESC, d.repository
