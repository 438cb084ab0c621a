-- On how many held-out documents did each phase improve, by validation set?
-- Compares the same documents before and after the phase. Sets include everything that the phase serves, the rows of
-- each objective, and targets only. change is in bits per byte over all documents.
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
