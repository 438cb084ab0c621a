-- Which tokens are not consumed yet?
-- Tokens of training rows that no step of a branch of templates has read yet, by family and domain.
SELECT b.branch, r.family, r.row_length, r.domain, count(*) AS rows, sum(r.valid_token_count)::BIGINT AS tokens,
       count(*) FILTER (WHERE s.pack_id IS NULL) AS rows_left,
       coalesce(sum(r.valid_token_count) FILTER (WHERE s.pack_id IS NULL), 0)::BIGINT AS tokens_left
FROM rows r
CROSS JOIN (SELECT DISTINCT branch FROM phases WHERE specialist = 'templates') b
LEFT JOIN (SELECT DISTINCT branch, pack_id, rows_key FROM steps WHERE specialist = 'templates') s
    ON s.branch IS NOT DISTINCT FROM b.branch AND s.pack_id = r.pack_id AND s.rows_key = r.rows_key
WHERE r.split = 'train'
GROUP BY b.branch, r.family, r.row_length, r.domain
ORDER BY b.branch NULLS FIRST, tokens_left DESC, r.family, r.row_length, r.domain
