-- How many tokens does each mixture take from each serving and domain, planned and trained?
-- share: in the diet; planned: share of the plan's tokens; realised: share of the tokens trained so far.
WITH trained AS (
    SELECT specialist, phase, mixture,
           CASE WHEN run_key IS NULL THEN 0 ELSE coalesce(steps, 0) END AS steps
    FROM status
), taken AS (
    SELECT x.mixture, t.specialist, x.stratum, sum(x.valid_tokens)::BIGINT AS tokens, count(*) AS rows
    FROM mixture_rows x
    JOIN trained t ON t.mixture = x.mixture
    JOIN mixtures m ON m.path = x.mixture
    WHERE x.slot < t.steps * (m.tokens_per_step // m.slot_length)
    GROUP BY x.mixture, t.specialist, x.stratum
)
SELECT t.specialist, t.phase, s.serving, s.family, s.objective, s.row_length, s.domain,
       s.share, s.served, s.tokens / m.tokens AS planned,
       k.tokens / sum(k.tokens) OVER (PARTITION BY s.path, t.specialist) AS realised,
       s.rows, s.rows_tokens, s.drawn, s.drawn_before, s.repetition,
       m.budget,
       (a.config->>'$.max_repetition')::DOUBLE AS max_repetition,
       a.config->>'$.on_shortage' AS on_shortage
FROM strata s
JOIN trained t ON t.mixture = s.path
JOIN mixtures m ON m.path = s.path
JOIN artefacts a ON a.path = s.path
LEFT JOIN taken k ON k.mixture = s.path AND k.specialist = t.specialist AND k.stratum = s.stratum
ORDER BY t.specialist, t.phase, s.serving, s.domain
