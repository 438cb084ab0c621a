-- Which repositories dominate what templates ate?
-- Tokens by repository, their share, and the share of it and all larger ones together.
SELECT e.repository, sum(e.tokens)::BIGINT AS tokens,
       round(100 * sum(e.tokens) / sum(sum(e.tokens)) OVER (), 1) AS percent,
       round(100 * sum(sum(e.tokens)) OVER (ORDER BY sum(e.tokens) DESC, e.repository)
             / sum(sum(e.tokens)) OVER (), 1) AS together
FROM (
    SELECT DISTINCT run, position, doc, repository, tokens
    FROM lineage
    WHERE specialist = 'templates'
) e
GROUP BY e.repository
ORDER BY tokens DESC, e.repository
