-- How often is each serving of a phase seen?
-- Passes over its rows: by phases before, in the plan, in the steps that were taken, and the most that the diet allows.
SELECT specialist, family, objective, domain, row_length, rows, round(before, 2) AS before,
       round(planned, 2) AS planned, round(realised, 2) AS realised, max_repetition, rows_never_seen
FROM epochs('templates/*', 'syntax')
ORDER BY specialist, planned DESC, family, domain
