-- What each phase of a specialist cost, and what each 0.01 bpb that it won did.

CREATE VIEW costs AS
SELECT c.*,
       CASE WHEN c.won > 0 THEN c.seconds / c.won / 100 END AS seconds_per_hundredth,
       CASE WHEN c.won > 0 THEN c.cost / c.won / 100 END AS cost_per_hundredth
FROM (
    SELECT r.specialist, r.phase, count(*) AS runs, sum(r.steps)::BIGINT AS steps,
           sum(r.valid_tokens)::BIGINT AS valid_tokens, sum(r.seconds) AS seconds,
           sum(r.gpu_seconds) AS gpu_seconds, sum(r.cost) AS cost,
           arg_max(r.phase_bpb_before, r.nth) FILTER (WHERE r.state = 'finished') AS bpb_before,
           arg_max(r.phase_bpb_after, r.nth) FILTER (WHERE r.state = 'finished') AS bpb_after,
           arg_max(r.phase_bpb_before - r.phase_bpb_after, r.nth)
               FILTER (WHERE r.state = 'finished') AS won
    FROM (
        SELECT *, row_number() OVER (ORDER BY current, ordinal, attempt) AS nth FROM attempts
    ) r
    GROUP BY r.specialist, r.phase
) c;
COMMENT ON VIEW costs IS
    'a line for each specialist and phase: what all its attempts cost, val_bpb of its last one, and seconds and money for each 0.01 that it won; nothing won has no price';
