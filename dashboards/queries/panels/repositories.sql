-- Which repositories does each mixture read, and how much of each?
-- Tokens of the plan by the repository that their document comes from; of a document from several, the first.
SELECT specialist, phase, repository, sum(tokens)::BIGINT AS tokens, count(DISTINCT document_id) AS documents
FROM (
    SELECT x.specialist, x.phase, d.repository, d.document_id,
           r.tokens * x.times AS tokens
    FROM (
        SELECT specialist, phase, rows_key, pack_id, count(*) AS times
        FROM mixture_rows GROUP BY ALL
    ) x
    JOIN (
        SELECT rows_key, pack_id, unnest(document_ids) AS document_id,
               unnest(list_transform(
                   list_zip(doc_starts, list_append(doc_starts[2:], valid_token_count)),
                   lambda pair: greatest(0, pair[2] - pair[1])
               )) AS tokens
        FROM rows
    ) r ON r.rows_key = x.rows_key AND r.pack_id = x.pack_id
    JOIN (
        SELECT document_id, min(provenance[1].repository) AS repository
        FROM documents GROUP BY document_id
    ) d ON d.document_id = r.document_id
)
GROUP BY specialist, phase, repository
ORDER BY specialist, phase, tokens DESC, repository
