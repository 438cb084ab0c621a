-- What a diet asked for, what the plan holds and what a run took of it.

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
        ORDER BY w.specialist = p.specialist DESC,
                 w.current DESC, w.ordinal DESC, w.attempt DESC) = 1
) t
JOIN steps s ON s.run = t.run
GROUP BY ALL;

CREATE VIEW internal.planned AS
SELECT p.specialist, p.phase, m.key AS mixture_key, s.serving, s.stratum,
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
SELECT __p.specialist, __p.phase, __p.serving, __p.stratum, __p.family, __p.objective, __p.domain,
       __p.row_length, __p.share, __p.served, __p.rows, __p.rows_tokens, __p.drawn, __p.tokens, __p.repetition
FROM internal.phase_asked(of_specialist, of_phase) __a
LEFT JOIN internal.planned __p
    ON internal.is_named(__a.__specialist, __p.specialist) AND __p.phase = __a.__phase
WHERE internal.stands(__p.phase IS NOT NULL, __a.__fault)
ORDER BY __p.specialist, __p.stratum;
COMMENT ON MACRO TABLE mixture IS
    'what the plan in use of a specialist''s phase takes of each serving in each domain; the specialist as templates/wide, or templates/* for templates and each templates/…';

CREATE MACRO planned_vs_realised(of_specialist, of_phase) AS TABLE
SELECT __p.specialist, __p.phase, __p.serving, __p.stratum, __p.family, __p.objective, __p.domain,
       __p.row_length, __p.share, __p.served, __p.tokens AS planned_tokens, __p.realised_tokens,
       __p.tokens / sum(__p.tokens) OVER (PARTITION BY __p.mixture_key, __p.specialist) AS planned_share,
       __p.realised_tokens / nullif(sum(__p.realised_tokens) OVER (PARTITION BY __p.mixture_key, __p.specialist), 0)
           AS realised_share,
       realised_share - __p.served AS drift
FROM internal.phase_asked(of_specialist, of_phase) __a
LEFT JOIN internal.planned __p
    ON internal.is_named(__a.__specialist, __p.specialist) AND __p.phase = __a.__phase
WHERE internal.stands(__p.phase IS NOT NULL, __a.__fault)
ORDER BY __p.specialist, __p.stratum;
COMMENT ON MACRO TABLE planned_vs_realised IS
    'shares as the diet says, as the plan in use holds and as the steps taken so far took; drift = realised share − share served';

CREATE MACRO epochs(of_specialist, of_phase) AS TABLE
SELECT __p.specialist, __p.phase, __p.serving, __p.stratum, __p.family, __p.objective, __p.domain,
       __p.row_length, __p.rows, __p.rows_tokens,
       __p.drawn_before / __p.rows AS before,
       __p.repetition AS planned,
       coalesce(__p.realised_rows * __p.repetition / nullif(__p.drawn, 0), 0) AS realised,
       __p.max_repetition,
       greatest(0, __p.rows - __p.drawn_before - if(
           sum(__p.realised_rows) OVER (PARTITION BY __p.mixture_key, __p.specialist) > 0,
           __p.realised_rows, __p.drawn)) AS rows_never_seen
FROM internal.phase_asked(of_specialist, of_phase) __a
LEFT JOIN internal.planned __p
    ON internal.is_named(__a.__specialist, __p.specialist) AND __p.phase = __a.__phase
WHERE internal.stands(__p.phase IS NOT NULL, __a.__fault)
ORDER BY __p.specialist, __p.stratum;
COMMENT ON MACRO TABLE epochs IS
    'passes over the rows of each serving in each domain: before this phase, in its plan, in the steps taken so far, and the most that the diet allows; rows_never_seen counts the steps taken, or the plan where none is';

CREATE MACRO distinct_tokens(of_run) AS TABLE
WITH __asked AS (
    FROM internal.run_asked(of_run, NULL) __a
), __visits AS (
    SELECT __a.__run AS run, __y.back, __y.phase, __s.pack_id, __s.rows_key, count(*) AS times
    FROM __asked __a
    JOIN main.ancestry __y ON __y.run = __a.__run
    JOIN main.steps __s ON __s.run = __y.before AND __s.step <= __y.until_step
    GROUP BY ALL
), __read AS (
    SELECT __v.run, __v.back, __v.phase, sum(__v.times * __r.loss_token_count) AS scored
    FROM __visits __v
    JOIN main.rows __r ON __r.rows_key = __v.rows_key AND __r.pack_id = __v.pack_id
    GROUP BY ALL
), __held AS (
    SELECT __v.run, __v.back, __w.hash, __w.halvings, max(__w.halvings) OVER (PARTITION BY __v.run) AS lowest
    FROM __visits __v
    JOIN main.windows __w ON __w.rows_key = __v.rows_key AND __w.pack_id = __v.pack_id
), __kept AS (
    SELECT __h.run, __h.back, __h.hash, any_value(__h.lowest) AS lowest,
           max(__h.back) OVER (PARTITION BY __h.run, __h.hash) AS first_back
    FROM __held __h
    WHERE __h.lowest = 0 OR (__h.hash >> (64 - __h.lowest)::UBIGINT) = 0
    GROUP BY __h.run, __h.back, __h.hash
), __counted AS (
    SELECT __k.run, __k.back, count(*) << any_value(__k.lowest) AS shown,
           count(*) FILTER (__k.back = __k.first_back) << any_value(__k.lowest) AS fresh
    FROM __kept __k
    GROUP BY ALL
)
SELECT __a.__specialist AS specialist, __r.phase, __r.scored::BIGINT AS scored_tokens,
       __c.shown::BIGINT AS distinct_tokens, __c.fresh::BIGINT AS new_tokens,
       sum(__r.scored) OVER __until / sum(__c.fresh) OVER __until AS token_repetition
FROM __asked __a
LEFT JOIN __read __r ON __r.run = __a.__run
LEFT JOIN __counted __c ON __c.run = __r.run AND __c.back = __r.back
WHERE internal.stands(__r.run IS NOT NULL, __a.__fault)
WINDOW __until AS (PARTITION BY __a.__specialist ORDER BY __r.back DESC)
ORDER BY __a.__specialist, __r.back DESC;
COMMENT ON MACRO TABLE distinct_tokens IS
    'scored tokens of a run and of the runs before it, how many of them are distinct, how many no earlier phase showed, and scored ÷ distinct tokens of all phases so far';
