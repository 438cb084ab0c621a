-- How much of each phase had the model seen before?
-- Rows that an earlier phase or an earlier pass read already.
SELECT phase, count(*) AS rows, count(*) FILTER (WHERE nth > 1) AS seen_again,
       round(100 * count(*) FILTER (WHERE nth > 1) / count(*), 1) AS percent
FROM (
    SELECT phase, row_number() OVER (
               PARTITION BY pack_id, rows_key ORDER BY back DESC, position) AS nth
    FROM (
        SELECT s.*, a.back
        FROM ancestry a JOIN steps s ON s.run_key = a.before_key AND s.attempt = a.before_attempt
        WHERE s.step <= a.until_step AND (a.run_key, a.attempt) IN (FROM run_named('templates/anneal'))
    )
)
GROUP BY phase
ORDER BY phase
