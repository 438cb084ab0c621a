-- Which rows were read just before a loss spike?
-- Finds the step whose gradient norm rose most above the mean of the five steps before it. Lists what this step and the
-- step before it read.
SELECT s.specialist, s.phase, s.step, k.step AS spike, round(k.rise, 2) AS rise,
       s.pack_id, l.repository, l.path, l."commit"
FROM (
    SELECT run, step, rise
    FROM (
        SELECT run, step,
               gradient_norm / avg(gradient_norm) OVER (
                   PARTITION BY run ORDER BY step ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING
               ) AS rise
        FROM metrics
    )
    WHERE rise IS NOT NULL
    QUALIFY row_number() OVER (ORDER BY rise DESC, run, step) = 1
) k
JOIN steps s ON s.run = k.run AND s.step BETWEEN k.step - 1 AND k.step
JOIN lineage l ON l.run = s.run AND l.position = s.position
ORDER BY s.step, s.position, l.doc
