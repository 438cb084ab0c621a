-- How much of each phase had the model seen before?
-- Rows that an earlier phase, or an earlier pass of the same phase, had already read.
SELECT model_specialist AS specialist, phase, count(*) AS rows, count(*) FILTER (WHERE nth > 1) AS seen_again,
       round(100 * count(*) FILTER (WHERE nth > 1) / count(*), 1) AS percent
FROM (
    SELECT model_specialist, phase, row_number() OVER (PARTITION BY model_specialist, rows_key, pack_id ORDER BY back DESC, position) AS nth,
           back
    FROM seen_before('templates/*/anneal', 1000000000)
)
GROUP BY model_specialist, phase
ORDER BY specialist, max(back) DESC
