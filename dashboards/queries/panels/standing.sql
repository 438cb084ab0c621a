-- How does each phase of each specialist stand?
-- Its status, plan and run. packed: valid tokens of all positions in the plan's rows; bpb: of its own validation rows.
SELECT coalesce(s.specialist, p.specialist) AS specialist, coalesce(s.phase, p.phase) AS phase,
       coalesce(s.state, 'unknown') AS state, coalesce(s.why, 'its status wasn''t computed yet') AS why,
       coalesce(p.valid_tokens, 0) AS tokens, coalesce(p.budget, 0) AS budget,
       m.tokens / (m.slots * m.slot_length) AS packed,
       p.phase_bpb_before AS before, p.phase_bpb_after AS after,
       p.steps, p.planned_steps, r.study
FROM (SELECT *, row_number() OVER () AS number FROM status WHERE phase <> '') s
FULL JOIN phases p
    ON p.specialist = s.specialist AND p.phase = s.phase
LEFT JOIN mixtures m ON m.path = p.mixture
LEFT JOIN runs r ON r.path = p.run
ORDER BY s.number NULLS LAST, p.specialist, p.created
