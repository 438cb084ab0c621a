-- Which tokens did each specialist train on, by phase and family?
-- Valid tokens of the rows that training steps read, and their share of the phase.
SELECT s.specialist, s.phase, r.family, count(*) AS rows, sum(s.valid_tokens)::BIGINT AS tokens,
       round(100 * sum(s.valid_tokens) / sum(sum(s.valid_tokens)) OVER (PARTITION BY s.specialist, s.phase), 1)
           AS percent
FROM steps s
JOIN rows r ON r.pack_id = s.pack_id AND r.rows_key = s.rows_key
GROUP BY s.specialist, s.phase, r.family
ORDER BY s.specialist, s.phase, tokens DESC
