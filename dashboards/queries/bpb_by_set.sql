-- On how many held-out documents did each phase get better, set by set?
-- The same documents before the phase and after it. Beside all that a phase serves, sets by objective and of targets alone; change in bits per byte over all documents.
WITH ends AS (SELECT run, max(step) AS last FROM evaluations GROUP BY run)
SELECT a.specialist, a.run_phase AS phase, a.phase AS of_phase, a.set, count(*) AS documents,
       count(*) FILTER (a.nats < b.nats) AS better,
       round((sum(a.nats) - sum(b.nats)) / ln(2) / sum(a.bytes), 4) AS change
FROM evaluations a
JOIN ends e ON e.run = a.run AND e.last = a.step
JOIN evaluations b ON b.run = a.run AND b.step = 0 AND b.set = a.set AND b.phase = a.phase
    AND b.rows_key = a.rows_key AND b.domain = a.domain AND b.document_id = a.document_id
GROUP BY ALL
ORDER BY a.specialist, phase, of_phase, a.set
