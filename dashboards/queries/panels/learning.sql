-- How does val_bpb fall with the training of each specialist?
-- On the anchor, the same validation rows in every phase; steps, valid tokens, scored tokens and seconds of training
-- since the first step of the first phase.
WITH ordered AS (
    SELECT p.specialist, p.phase, p.run,
           coalesce(sum(r.steps) OVER earlier, 0) AS steps,
           coalesce(sum(r.valid_tokens) OVER earlier, 0) AS tokens,
           coalesce(sum(r.scored_tokens) OVER earlier, 0) AS scored_tokens,
           coalesce(sum(r.seconds) OVER earlier, 0) AS seconds
    FROM status p
    JOIN attempts r ON r.path = p.run
    LEFT JOIN (
        SELECT specialist, phase, min(created) AS first FROM mixtures GROUP BY ALL
    ) o ON o.specialist = p.specialist AND o.phase = p.phase
    WHERE p.valid_tokens IS NOT NULL
    WINDOW earlier AS (
        PARTITION BY p.specialist ORDER BY coalesce(o.first, p.created), p.created
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
), seen AS (
    SELECT run, step, sum(valid_tokens) OVER so_far AS tokens,
           sum(scored_tokens) OVER so_far AS scored_tokens, sum(seconds) OVER so_far AS seconds
    FROM metrics
    WINDOW so_far AS (PARTITION BY run ORDER BY step)
)
SELECT o.specialist, o.phase, (o.steps + f.step)::BIGINT AS steps,
       (o.tokens + max(coalesce(s.tokens, 0)))::BIGINT AS tokens,
       (o.scored_tokens + max(coalesce(s.scored_tokens, 0)))::BIGINT AS scored_tokens,
       o.seconds + max(coalesce(s.seconds, 0)) AS seconds,
       any_value(f.val_bpb) AS val_bpb, any_value(f.low) AS low, any_value(f.high) AS high
FROM ordered o
JOIN figures f ON f.run = o.run
    AND f.set = 'anchor' AND f.family = '*' AND f.domain = '*'
LEFT JOIN seen s ON s.run = f.run AND s.step = f.step
WHERE f.step > 0 OR o.tokens = 0
GROUP BY o.specialist, o.phase, o.steps, o.tokens, o.scored_tokens, o.seconds, f.step
ORDER BY o.specialist, steps
