-- Did the run train on the planned mixture?
-- Shares of the phase's tokens in the diet, in the plan, and in the steps so far. drift is in percentage points.
SELECT specialist, family, objective, domain, row_length, round(100 * share, 2) AS diet,
       round(100 * planned_share, 2) AS planned, round(100 * realised_share, 2) AS realised,
       round(100 * drift, 2) AS drift
FROM planned_vs_realised('templates/*', 'syntax')
ORDER BY specialist, abs(drift) DESC, family, domain
