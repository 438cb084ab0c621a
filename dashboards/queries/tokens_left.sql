-- Which tokens has each specialist not trained on yet?
-- Tokens of training rows that no step of a specialist has read yet, by family and domain.
SELECT b.specialist, r.family, r.row_length, r.domain, count(*) AS rows, sum(r.valid_token_count)::BIGINT AS tokens,
       count(*) FILTER (WHERE s.pack_id IS NULL) AS rows_left,
       coalesce(sum(r.valid_token_count) FILTER (WHERE s.pack_id IS NULL), 0)::BIGINT AS tokens_left
FROM rows r
CROSS JOIN (SELECT DISTINCT specialist FROM status) b
LEFT JOIN (SELECT DISTINCT specialist, pack_id, rows_key FROM steps) s
    ON s.specialist = b.specialist AND s.pack_id = r.pack_id AND s.rows_key = r.rows_key
WHERE r.split = 'train'
GROUP BY b.specialist, r.family, r.row_length, r.domain
ORDER BY b.specialist, tokens_left DESC, r.family, r.row_length, r.domain
