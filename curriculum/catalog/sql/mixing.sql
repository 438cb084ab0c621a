-- What a diet asked for, what the plan holds and what a run took of it.

CREATE MACRO internal.is_way(given, a_specialist, a_branch) AS
    given IN (a_specialist, concat_ws('/', a_specialist, a_branch));

CREATE VIEW internal.realised AS
SELECT t.place, s.stratum, count(*) AS rows, sum(s.valid_tokens)::BIGINT AS tokens
FROM (
    SELECT p.place, w.run
    FROM internal.places p
    JOIN main.artefacts a ON a.path = p.path
    JOIN internal.walks w ON w.mixture_key = a.key
    WHERE p.stage = 'mixtures'
    QUALIFY row_number() OVER (
        PARTITION BY p.place
        ORDER BY w.specialist = p.specialist AND w.branch IS NOT DISTINCT FROM p.branch DESC,
                 w.current DESC, w.steps DESC, w.attempt DESC) = 1
) t
JOIN steps s ON s.run = t.run
GROUP BY ALL;

CREATE VIEW internal.planned AS
SELECT p.specialist, p.branch, p.phase, m.key AS mixture_key, s.serving, s.stratum,
       s.family, s.objective, s.domain, s.row_length, s.share, s.served,
       s.rows, s.rows_tokens, s.drawn, s.drawn_before, s.tokens, s.repetition,
       (a.config->>'$.max_repetition')::DOUBLE AS max_repetition,
       coalesce(r.rows, 0) AS realised_rows, coalesce(r.tokens, 0) AS realised_tokens
FROM internal.places p
JOIN main.strata s ON s.path = p.path
JOIN main.mixtures m ON m.path = s.path
JOIN main.artefacts a ON a.path = m.path
LEFT JOIN internal.realised r ON r.place = p.place AND r.stratum = s.stratum
WHERE p.stage = 'mixtures';

CREATE MACRO mixture(of_specialist, of_phase) AS TABLE
SELECT p.specialist, p.branch, p.phase, p.serving, p.stratum, p.family, p.objective, p.domain,
       p.row_length, p.share, p.served, p.rows, p.rows_tokens, p.drawn, p.tokens, p.repetition
FROM internal.planned p
WHERE internal.is_way(of_specialist, p.specialist, p.branch) AND p.phase = of_phase
ORDER BY p.branch, p.stratum;
COMMENT ON MACRO TABLE mixture IS
    'what the plan in use of a specialist''s phase takes of each serving in each domain; the specialist as templates or templates/demo';

CREATE MACRO planned_vs_realised(of_specialist, of_phase) AS TABLE
SELECT p.specialist, p.branch, p.phase, p.serving, p.stratum, p.family, p.objective, p.domain,
       p.row_length, p.share, p.served, p.tokens AS planned_tokens, p.realised_tokens,
       p.tokens / sum(p.tokens) OVER (PARTITION BY p.mixture_key, p.specialist, p.branch) AS planned_share,
       p.realised_tokens / nullif(sum(p.realised_tokens) OVER (PARTITION BY p.mixture_key, p.specialist, p.branch), 0)
           AS realised_share,
       realised_share - p.served AS drift
FROM internal.planned p
WHERE internal.is_way(of_specialist, p.specialist, p.branch) AND p.phase = of_phase
ORDER BY p.branch, p.stratum;
COMMENT ON MACRO TABLE planned_vs_realised IS
    'shares as the diet says, as the plan in use holds and as the steps taken so far took; drift = realised share − share served';

CREATE MACRO epochs(of_specialist, of_phase) AS TABLE
SELECT p.specialist, p.branch, p.phase, p.serving, p.stratum, p.family, p.objective, p.domain,
       p.row_length, p.rows, p.rows_tokens,
       p.drawn_before / p.rows AS before,
       p.repetition AS planned,
       coalesce(p.realised_rows * p.repetition / nullif(p.drawn, 0), 0) AS realised,
       p.max_repetition,
       greatest(0, p.rows - p.drawn_before - p.drawn) AS rows_never_seen
FROM internal.planned p
WHERE internal.is_way(of_specialist, p.specialist, p.branch) AND p.phase = of_phase
ORDER BY p.branch, p.stratum;
COMMENT ON MACRO TABLE epochs IS
    'passes over the rows of each serving in each domain: before this phase, in its plan, in the steps taken so far, and the most that the diet allows';

CREATE VIEW internal.lineages_of_rows AS
SELECT i.key AS rows_key, d.document_id, min(d.lineage) AS lineage
FROM main.inputs i JOIN main.documents d ON d.documents_key = i.input_key
GROUP BY ALL;

CREATE MACRO source_repetition(of_run) AS TABLE
WITH visits AS (
    SELECT s.pack_id, s.rows_key, count(*) AS times
    FROM ancestry a JOIN steps s ON s.run = a.before
    WHERE a.run IN (SELECT n.run FROM run_named(of_run) n) AND s.step <= a.until_step
    GROUP BY ALL
), held AS (
    SELECT r.rows_key, l.lineage, sum(r.token_end - r.token_start) AS tokens,
           sum((r.token_end - r.token_start) * coalesce(v.times, 0)) AS seen
    FROM row_documents r
    JOIN (SELECT DISTINCT v.rows_key FROM visits v) k ON k.rows_key = r.rows_key
    JOIN internal.lineages_of_rows l
        ON l.rows_key = r.rows_key AND l.document_id = r.document_id
    LEFT JOIN visits v ON v.pack_id = r.pack_id AND v.rows_key = r.rows_key
    GROUP BY ALL
)
SELECT h.lineage, max(h.tokens)::BIGINT AS distinct_tokens, sum(h.seen)::BIGINT AS tokens_seen,
       sum(h.seen) / max(h.tokens) AS repetition
FROM held h
GROUP BY h.lineage
ORDER BY repetition DESC, h.lineage;
COMMENT ON MACRO TABLE source_repetition IS
    'tokens that a run and those before it read of each source file, and how often that is all there is of it';
