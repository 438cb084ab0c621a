-- What a question may call a specialist, a phase or a run, and the error where nothing has the name.
--
-- DuckDB puts the arguments of a macro into its text, where an alias or a column of the same name would
-- capture them. So a name that begins with __ is reserved for macros, all that a macro names has it, and
-- parameters stand only where no column is in scope.

CREATE TABLE internal.diets AS
SELECT * FROM $diets;

CREATE VIEW internal.known AS
SELECT specialist, branch, phase FROM main.artefacts WHERE specialist IS NOT NULL
UNION SELECT specialist, branch, phase FROM internal.runs
UNION SELECT specialist, branch, phase FROM internal.places
UNION SELECT specialist, branch, phase FROM internal.diets;

CREATE VIEW internal.there_is AS
SELECT coalesce(list(DISTINCT concat_ws('/', specialist, branch)), []) AS ways,
       coalesce(list(DISTINCT specialist), []) AS specialists,
       coalesce(list(DISTINCT phase), []) AS phases
FROM internal.known;

CREATE MACRO internal.listed(names) AS
    coalesce(nullif(array_to_string(list_sort(names), ', '), ''), 'none');

CREATE MACRO internal.is_way(given, a_specialist, a_branch) AS
    given IN (concat_ws('/', a_specialist, a_branch), concat_ws('.', a_specialist, a_branch),
              a_specialist || '/*');

-- Null where there are such a specialist and phase.
CREATE MACRO internal.fault(way, phase, ways, specialists, phases) AS CASE
    WHEN way IS NULL OR phase IS NULL THEN NULL
    WHEN NOT list_contains(ways, way) AND NOT list_contains(ways, replace(way, '.', '/'))
        AND NOT list_contains(specialists, regexp_replace(way, '/[*]$', ''))
    THEN format('there is no specialist ''{}'' here, only {}; templates means the one without a branch, templates/* all branches',
                way, internal.listed(ways))
    WHEN NOT list_contains(phases, phase)
    THEN format('there is no phase ''{}'' here, only {}', phase, internal.listed(phases))
END;

-- Whether a line stands: one that was found does, else the fault, if any, is the error.
CREATE MACRO internal.stands(is_found, fault) AS
    CASE WHEN is_found THEN true ELSE error(fault) IS NOT NULL END;

-- One line. What it is joined to must be so by LEFT JOIN, and its lines stand or not by internal.stands:
-- DuckDB never evaluates an error beside an inner join that it knows to be empty.
CREATE MACRO internal.phase_asked(of_specialist, of_phase) AS TABLE
SELECT __g.__specialist, __g.__phase,
       internal.fault(__g.__specialist, __g.__phase, __t.ways, __t.specialists, __t.phases) AS __fault
FROM (SELECT of_specialist::VARCHAR AS __specialist, of_phase::VARCHAR AS __phase) __g
CROSS JOIN internal.there_is __t;

CREATE VIEW internal.walks AS
SELECT r.path AS run, r.key AS run_key, r.attempt, r.specialist, r.branch, r.phase, r.current, r.created,
       concat_ws('/', r.specialist, r.branch, r.phase) AS name,
       concat_ws('/', r.specialist, r.phase) AS short_name,
       coalesce(r.steps, 0) AS steps, r.plan_key AS mixture_key,
       coalesce(r.slots_per_step, m.tokens_per_step // m.slot_length) AS slots_per_step,
       r.parent_run, r.parent_step
FROM main.runs r
LEFT JOIN (SELECT DISTINCT key, tokens_per_step, slot_length FROM internal.mixtures) m
    ON m.key = r.plan_key;

-- Each run under each name that it has.
CREATE VIEW internal.named AS
SELECT run, run_key, attempt, current, created, specialist, branch, phase, true AS is_own
FROM internal.walks
UNION ALL
SELECT w.run, w.run_key, w.attempt, w.current, w.created, p.specialist, p.branch, p.phase, false
FROM internal.places p JOIN internal.walks w ON w.run = p.path
WHERE p.stage = 'runs';

CREATE VIEW internal.names AS
SELECT coalesce(list(DISTINCT concat_ws('/', specialist, branch, phase)), []) AS runs
FROM internal.named;

-- Null where a run of that name may be yet to come.
CREATE MACRO internal.fault_of_run(name, parts, ways, specialists, phases, runs) AS CASE
    WHEN name IS NULL THEN NULL
    WHEN len(parts) IN (2, 3) AND parts[1] <> 'runs'
    THEN internal.fault(array_to_string(parts[:-2], '/'), parts[-1], ways, specialists, phases)
    ELSE format('there is no run ''{}'' here, only {}; a run may also be named by its path (runs/…) or the first 6 digits of its key',
                name, internal.listed(runs))
END;

-- A line for each run that is meant, to be joined as those of phase_asked; one without a run where there is none.
CREATE MACRO internal.run_asked(of_run, of_step) AS TABLE
SELECT __m.run AS __run, __m.run_key AS __run_key, __m.attempt AS __attempt, __m.branch AS __branch,
       __g.__step,
       CASE WHEN __m.run IS NULL THEN internal.fault_of_run(
           __g.__name, string_split(__g.__name, '/'), __t.ways, __t.specialists, __t.phases, __n.runs) END AS __fault
FROM (SELECT of_run::VARCHAR AS __name, of_step AS __step) __g
CROSS JOIN internal.there_is __t
CROSS JOIN internal.names __n
LEFT JOIN internal.named __m ON __g.__name IN (
        __m.run, concat_ws('/', __m.specialist, __m.branch, __m.phase), __m.specialist || '/*/' || __m.phase,
        concat_ws('.', __m.specialist, __m.branch) || '/' || __m.phase)
    OR (length(__g.__name) >= 6 AND starts_with(__m.run_key, lower(__g.__name)))
QUALIFY row_number() OVER (
    PARTITION BY __g.__name, __g.__step, CASE WHEN contains(__g.__name, '/*/') THEN __m.branch END
    ORDER BY __m.current DESC, __m.created DESC NULLS FIRST, __m.attempt DESC, __m.is_own DESC) = 1;
