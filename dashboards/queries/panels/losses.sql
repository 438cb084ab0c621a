-- How does the training loss of each run fall?
-- Means over consecutive steps, at most 400 for each run, in nats per scored token; steps, valid tokens, scored tokens
-- and seconds of training since the first step of the run.
WITH numbered AS (
    SELECT p.specialist, p.phase, m.step, m.loss,
           sum(m.valid_tokens) OVER so_far AS tokens,
           sum(m.scored_tokens) OVER so_far AS scored_tokens,
           sum(m.seconds) OVER so_far AS seconds,
           row_number() OVER so_far - 1 AS number,
           ceil(count(*) OVER (PARTITION BY p.specialist, p.phase) / 400) AS size
    FROM status p
    JOIN metrics m ON m.run = p.run
    WINDOW so_far AS (PARTITION BY p.specialist, p.phase ORDER BY m.step)
)
SELECT specialist, phase, max(step) AS steps, max(tokens)::BIGINT AS tokens,
       max(scored_tokens)::BIGINT AS scored_tokens, max(seconds) AS seconds, avg(loss) AS loss
FROM numbered
WHERE isfinite(loss)
GROUP BY specialist, phase, number // size
ORDER BY specialist, phase, steps
