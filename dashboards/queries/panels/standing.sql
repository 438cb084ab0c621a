-- How does each phase of each specialist stand?
-- Its plan and run in use. packed: valid tokens of all positions in the plan's rows; bpb: of its own validation rows.
SELECT p.specialist, p.branch, p.phase,
       CASE WHEN p.stopped IN ('failed', 'cancelled') THEN p.stopped
            WHEN s.why IS NOT NULL AND p.state IN ('finished', 'mixed') THEN 'stale'
            WHEN g.kind = 'waits' THEN 'waiting'
            WHEN g.kind IS NOT NULL THEN g.kind
            WHEN p.state = 'finished' THEN 'done'
            ELSE p.state END AS state,
       coalesce(s.why, g.why, r.reason, '') AS why,
       coalesce(p.valid_tokens, 0) AS tokens, coalesce(p.budget, 0) AS budget,
       m.tokens / (m.slots * m.slot_length) AS packed,
       p.phase_bpb_before AS before, p.phase_bpb_after AS after,
       p.steps, p.planned_steps
FROM phases p
LEFT JOIN mixtures m ON m.path = p.mixture
LEFT JOIN runs r ON r.path = p.run
LEFT JOIN gates g ON g.run = p.run AND g.specialist = p.specialist AND g.branch IS NOT DISTINCT FROM p.branch
LEFT JOIN (
    SELECT specialist, branch, phase, max_by(why, stage) AS why FROM stale() GROUP BY ALL
) s ON s.specialist = p.specialist AND s.branch IS NOT DISTINCT FROM p.branch AND s.phase = p.phase
LEFT JOIN (
    SELECT specialist, branch, phase, min(created) AS first FROM mixtures GROUP BY ALL
) o ON o.specialist = p.specialist AND o.branch IS NOT DISTINCT FROM p.branch AND o.phase = p.phase
ORDER BY p.specialist, p.branch NULLS FIRST, coalesce(coalesce(o.first, p.created))
