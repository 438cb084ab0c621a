-- How long is the longest context, and how many tokens are learnt with long context?
-- The longest document of each family, and the percentage of scored tokens that have at least 1k and 16k tokens of
-- their own document before them.
SELECT d.family, d.row_length, d.longest, d.mean_length,
       round(100 * (1 - c.below_1k / c.scored), 2) AS percent_past_1k,
       round(100 * c.above_16k / c.scored, 2) AS percent_past_16k
FROM (
    SELECT family, row_length, max(token_end - token_start) AS longest,
           round(avg(token_end - token_start), 1) AS mean_length
    FROM row_documents WHERE split = 'train' GROUP BY ALL
) d
JOIN (
    SELECT family, row_length, sum(loss_token_count) AS scored,
           sum(context_histogram[1]) AS below_1k, sum(context_histogram[4]) AS above_16k
    FROM rows WHERE split = 'train' GROUP BY ALL
) c ON c.family = d.family AND c.row_length = d.row_length
ORDER BY d.longest DESC, d.family
