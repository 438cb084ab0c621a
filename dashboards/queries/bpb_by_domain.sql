-- How did each phase change val_bpb, by family and domain?
-- Bits per byte on the validation rows of the phase; lower is better. low and high are the 95 % interval of the figure
-- after the phase. They are null if there are too few documents or lineages.
SELECT a.specialist, a.phase, a.family, a.domain,
       round(b.val_bpb, 4) AS before, round(a.val_bpb, 4) AS after,
       round(a.val_bpb - b.val_bpb, 4) AS change,
       CASE WHEN a.is_sure THEN round(a.low, 4) END AS low,
       CASE WHEN a.is_sure THEN round(a.high, 4) END AS high,
       a.documents, a.lineages
FROM figures a
JOIN figures b ON b.run = a.run AND b.moment = 'before'
    AND b.set = a.set AND b.phase = a.phase AND b.family = a.family AND b.domain = a.domain
WHERE a.moment = 'after' AND a.set = 'phase' AND a.phase = a.run_phase
ORDER BY a.specialist, a.phase, a.family, a.domain
