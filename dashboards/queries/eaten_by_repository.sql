-- Which repositories dominate what templates ate?
-- Of each branch: tokens by repository, their share, and the share of it and all larger ones together.
SELECT e.branch, e.repository, sum(e.tokens)::BIGINT AS tokens,
       round(100 * sum(e.tokens) / sum(sum(e.tokens)) OVER (PARTITION BY e.branch), 1) AS percent,
       round(100 * sum(sum(e.tokens)) OVER (PARTITION BY e.branch ORDER BY sum(e.tokens) DESC, e.repository)
             / sum(sum(e.tokens)) OVER (PARTITION BY e.branch), 1) AS together
FROM (
    SELECT DISTINCT branch, run, position, doc, repository, tokens
    FROM lineage
    WHERE specialist = 'templates'
) e
GROUP BY e.branch, e.repository
ORDER BY e.branch NULLS FIRST, tokens DESC, e.repository
