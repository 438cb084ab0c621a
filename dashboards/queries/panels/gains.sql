-- How did val_bpb change in each phase of each specialist?
-- val_bpb of the phase's own validation rows before and after it, and of the anchor, a fixed validation set.
SELECT p.specialist, p.phase, p.phase_bpb_before AS before, p.phase_bpb_after AS after,
       f.low, f.high, f.documents, f.lineages,
       f.effective_documents, f.effective_lineages, p.anchor_bpb_before AS anchor_before, p.anchor_bpb_after AS anchor_after,
       p.valid_tokens AS tokens, p.run, p.study
FROM status p
LEFT JOIN figures f ON f.run = p.run AND f.moment = 'after'
    AND f.set = 'phase' AND f.phase = p.phase AND f.family = '*' AND f.domain = '*'
LEFT JOIN (
    SELECT specialist, phase, min(created) AS first FROM mixtures GROUP BY ALL
) o ON o.specialist = p.specialist AND o.phase = p.phase
WHERE p.phase_bpb_after IS NOT NULL AND p.phase_bpb_before IS NOT NULL
ORDER BY p.specialist, coalesce(o.first, p.created)
