-- How full are the rows of each data set?
-- yield is the percentage of row positions that contain a token. scored is the percentage of these tokens that training
-- scores.
SELECT family, base, objective || coalesce(' ' || packer, '') || coalesce(' score ' || score, '') || coalesce(' beside ' || beside, '') AS objective, row_length, domain,
       count(*) AS rows, sum(valid_token_count)::BIGINT AS tokens,
       round(100 * sum(valid_token_count) / sum(row_length), 1) AS yield,
       round(100 * sum(loss_token_count) / sum(valid_token_count), 1) AS scored
FROM rows
WHERE split = 'train'
GROUP BY ALL
ORDER BY family, base, objective, row_length, domain
