-- What is the state of each phase of each specialist?
-- Status, plan and run. packed: share of positions of the plan's rows that hold a valid token; bpb: of its own validation rows.
SELECT s.specialist, s.phase, s.state, s.why,
       coalesce(s.valid_tokens, 0) AS tokens, coalesce(s.budget, 0) AS budget,
       m.tokens / (m.slots * m.slot_length) AS packed,
       s.phase_bpb_before AS before, s.phase_bpb_after AS after,
       s.steps, s.planned_steps, s.study
FROM status s
LEFT JOIN mixtures m ON m.path = s.mixture
WHERE s.phase <> ''
