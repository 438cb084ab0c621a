-- Which repositories dominate the training data of each specialist?
-- Tokens by repository, the share of the repository, and its share together with all larger repositories.
SELECT e.specialist, e.repository, sum(e.tokens)::BIGINT AS tokens,
       round(100 * sum(e.tokens) / sum(sum(e.tokens)) OVER (PARTITION BY e.specialist), 1) AS percent,
       round(100 * sum(sum(e.tokens)) OVER (PARTITION BY e.specialist ORDER BY sum(e.tokens) DESC, e.repository)
             / sum(sum(e.tokens)) OVER (PARTITION BY e.specialist), 1) AS together
FROM (SELECT DISTINCT specialist, run, position, doc, repository, tokens FROM lineage) e
GROUP BY e.specialist, e.repository
ORDER BY e.specialist, tokens DESC, e.repository
