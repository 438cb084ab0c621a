-- What is left to eat?
-- Tokens of training rows that no step of templates has read yet, by family and domain.
SELECT r.family, r.row_length, r.domain, count(*) AS rows, sum(r.valid_token_count)::BIGINT AS tokens,
       count(*) FILTER (WHERE s.pack_id IS NULL) AS rows_left,
       coalesce(sum(r.valid_token_count) FILTER (WHERE s.pack_id IS NULL), 0)::BIGINT AS tokens_left
FROM rows r
LEFT JOIN (SELECT DISTINCT pack_id, rows_key FROM steps WHERE specialist = 'templates') s
    ON s.pack_id = r.pack_id AND s.rows_key = r.rows_key
WHERE r.split = 'train'
GROUP BY r.family, r.row_length, r.domain
ORDER BY tokens_left DESC, r.family, r.row_length, r.domain
