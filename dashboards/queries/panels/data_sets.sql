-- Which training rows are in use, and how full are they?
-- By family, objective and row length; packed: share of row positions that hold a valid token.
SELECT family, base, objective || coalesce(' ' || packer, '') || coalesce(' score ' || score, '') || coalesce(' beside ' || beside, '') AS objective, row_length, count(*) AS rows,
       sum(valid_token_count)::BIGINT AS tokens, sum(loss_token_count)::BIGINT AS scored,
       sum(num_docs)::BIGINT AS documents,
       sum(valid_token_count) / (count(*) * row_length) AS packed
FROM rows
WHERE split = 'train'
GROUP BY family, base, objective, packer, score, beside, row_length
ORDER BY family, base, objective, row_length
