-- What a question may call a specialist, a phase or a run, and the error where nothing has the name.
--
-- DuckDB puts the arguments of a macro into its text, where an alias or a column of the same name would
-- capture them. So a name that begins with __ is reserved for macros, all that a macro names has it, and
-- parameters stand only where no column is in scope.

CREATE MACRO internal.listed(names) AS
    coalesce('only ' || nullif(array_to_string(list_sort(names), ', '), ''), 'nor any other');

-- The fault of an id that nothing in some views has.
CREATE MACRO internal.unknown(kind, given, of_views) AS
    format('there is no {} ''{}'' here, only those of {}', kind, given, of_views);

-- Whether a name, as commands take it, means a specialist.
CREATE MACRO internal.is_named(given, a_specialist) AS
    given IN (a_specialist, replace(a_specialist, '/', '.'), split_part(a_specialist, '/', 1) || '/*');

-- Whether a line stands: one that was found does, else the fault, if any, is the error.
CREATE MACRO internal.stands(is_found, fault) AS
    CASE WHEN is_found THEN true ELSE error(fault) IS NOT NULL END;

CREATE VIEW internal.mixed AS
SELECT coalesce(list(DISTINCT concat_ws('/', specialist, phase)), []) AS phases
FROM internal.places WHERE stage = 'mixtures';

-- One line. What it is joined to must be so by LEFT JOIN, and its lines stand or not by internal.stands:
-- DuckDB never evaluates an error beside an inner join that it knows to be empty.
CREATE MACRO internal.phase_asked(of_specialist, of_phase) AS TABLE
SELECT __g.__specialist, __g.__phase,
       CASE WHEN (__g.__specialist || __g.__phase) IS NOT NULL
       THEN format('there is no mixture ''{}/{}'' here, {}; templates/* means templates and each templates/…',
                   __g.__specialist, __g.__phase, internal.listed(__m.phases)) END AS __fault
FROM (SELECT of_specialist::VARCHAR AS __specialist, of_phase::VARCHAR AS __phase) __g
CROSS JOIN internal.mixed __m;

CREATE VIEW internal.walks AS
SELECT r.path AS run, r.key AS run_key, r.attempt, r.specialist, r.phase, r.current, r.ordinal,
       coalesce(r.steps, 0) AS steps, r.plan_key AS mixture_key,
       coalesce(r.slots_per_step, m.tokens_per_step // m.slot_length) AS slots_per_step,
       r.parent_run, r.parent_step
FROM main.attempts r
LEFT JOIN (SELECT DISTINCT key, tokens_per_step, slot_length FROM internal.mixtures) m
    ON m.key = r.plan_key;

-- Each run under each name that it has.
CREATE VIEW internal.named AS
SELECT run, run_key, attempt, current, ordinal, steps, specialist, phase, true AS is_own
FROM internal.walks
UNION ALL
SELECT w.run, w.run_key, w.attempt, w.current, w.ordinal, w.steps, p.specialist, p.phase, false
FROM internal.places p JOIN internal.walks w ON w.run = p.path
WHERE p.stage = 'runs';

CREATE VIEW internal.names AS
SELECT coalesce(list(DISTINCT concat_ws('/', specialist, phase)), []) AS runs
FROM internal.named;

-- A line for each run that is meant, to be joined as those of phase_asked; one without a run where there is none.
-- A step that the run hasn't taken, nor any of those that a pattern means, is a fault of questions about it.
CREATE MACRO internal.run_asked(of_run, of_step) AS TABLE
SELECT __m.run AS __run, __m.run_key AS __run_key, __m.attempt AS __attempt, __m.specialist AS __specialist,
       __g.__step,
       CASE WHEN __m.run IS NULL AND __g.__name IS NOT NULL
       THEN format('there is no run ''{}'' here, {}; a run may also be named by its path (runs/…) or the first 6 digits of its key',
                   __g.__name, internal.listed(__n.runs)) END AS __fault,
       CASE WHEN __g.__step NOT BETWEEN 1 AND CASE WHEN contains(__g.__name, '/*/')
            THEN max(__m.steps) OVER (PARTITION BY __g.__name, __g.__step) ELSE __m.steps END
       THEN format('there is no step {} of the run ''{}'', only 1 to {}', __g.__step, __m.run, __m.steps)
       END AS __step_fault
FROM (SELECT of_run::VARCHAR AS __name, of_step AS __step) __g
CROSS JOIN internal.names __n
LEFT JOIN internal.named __m ON __g.__name = __m.run
    OR (ends_with(__g.__name, '/' || __m.phase)
        AND internal.is_named(left(__g.__name, length(__g.__name) - length(__m.phase) - 1), __m.specialist))
    OR (length(__g.__name) >= 6 AND starts_with(__m.run_key, lower(__g.__name)))
QUALIFY row_number() OVER (
    PARTITION BY __g.__name, __g.__step, CASE WHEN contains(__g.__name, '/*/') THEN __m.specialist END
    ORDER BY __m.current DESC, __m.ordinal DESC, __m.attempt DESC, __m.is_own DESC) = 1;
