-- How often is each serving of a phase repeated?
-- Passes over the rows of the serving: in earlier phases, in the plan, in the steps so far, and the maximum that the diet
-- allows.
SELECT specialist, family, objective, domain, row_length, rows, round(before, 2) AS before,
       round(planned, 2) AS planned, round(realised, 2) AS realised, max_repetition, rows_never_seen
FROM epochs('templates/*', 'syntax')
ORDER BY specialist, planned DESC, family, domain
