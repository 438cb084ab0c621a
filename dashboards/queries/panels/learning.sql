-- How does val_bpb fall with the training tokens of each specialist?
-- On the anchor, the same validation rows in every phase; tokens: valid tokens since the first step of the first phase.
WITH ordered AS (
    SELECT p.specialist, p.phase, p.run, p.valid_tokens,
           coalesce(sum(p.valid_tokens) OVER (
               PARTITION BY p.specialist ORDER BY coalesce(o.first, p.created), p.created
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ), 0) AS tokens_before
    FROM status p
    LEFT JOIN (
        SELECT specialist, phase, min(created) AS first FROM mixtures GROUP BY ALL
    ) o ON o.specialist = p.specialist AND o.phase = p.phase
    WHERE p.valid_tokens IS NOT NULL
), seen AS (
    SELECT run, step, sum(valid_tokens) OVER (PARTITION BY run ORDER BY step) AS tokens
    FROM metrics
)
SELECT o.specialist, o.phase, f.step,
       (o.tokens_before + max(coalesce(s.tokens, 0)))::BIGINT AS tokens,
       any_value(f.val_bpb) AS val_bpb, any_value(f.low) AS low, any_value(f.high) AS high
FROM ordered o
JOIN figures f ON f.run = o.run
    AND f.set = 'anchor' AND f.family = '*' AND f.domain = '*'
LEFT JOIN seen s ON s.run = f.run AND s.step = f.step
WHERE f.step > 0 OR o.tokens_before = 0
GROUP BY o.specialist, o.phase, o.tokens_before, f.step
ORDER BY o.specialist, tokens, o.tokens_before, f.step
