-- The data itself: views over the files of the artefacts that are in use.

CREATE VIEW documents AS
SELECT d.* EXCLUDE (file, origin), a.repository, d.origin.path AS path, d.origin."commit" AS "commit",
       a.base, a.key AS documents_key
FROM (
    SELECT *, coalesce([source for source in provenance if source.lineage = lineage][1], provenance[-1]) AS origin
    FROM $documents
) d
JOIN internal.data f ON f.file = d.file JOIN artefacts a ON a.path = f.path;
COMMENT ON VIEW documents IS
    'every document with its text, parts and provenance; repository, path and commit are those of the file that it is about';

-- The file that a document is about, a line for each id: what doesn't name its columns never reads it.
CREATE VIEW internal.origins AS
SELECT document_id, arg_min(repository, documents_key) AS repository, arg_min(path, documents_key) AS path,
       arg_min("commit", documents_key) AS "commit"
FROM documents
GROUP BY document_id;

CREATE VIEW selection AS
SELECT d.* EXCLUDE (file), o.path, o."commit", a.corpus, a.key AS selection_key
FROM $selection d JOIN internal.data f ON f.file = d.file JOIN artefacts a ON a.path = f.path
LEFT JOIN internal.origins o ON o.document_id = d.document_id;
COMMENT ON VIEW selection IS
    'what of them is kept, on which side of the split, in which domain by which rule';

CREATE VIEW rejected AS
SELECT * FROM selection WHERE NOT keep;
COMMENT ON VIEW rejected IS 'what isn''t kept, with the rule and the evidence';

CREATE VIEW rows AS
SELECT d.* EXCLUDE (file), a.row_length, a.base, a.packer, a.score, a.beside, a.key AS rows_key
FROM $rows d JOIN internal.data f ON f.file = d.file JOIN artefacts a ON a.path = f.path;
COMMENT ON VIEW rows IS 'packed rows; token lists cost time, the counts beside them don''t';

CREATE VIEW windows AS
SELECT d.* EXCLUDE (file), a.family, a.objective, a.row_length, a.score, a.key AS rows_key
FROM $windows d JOIN internal.data f ON f.file = d.file JOIN artefacts a ON a.path = f.path;
COMMENT ON VIEW windows IS
    'the different windows of scored tokens of each row, as hashes below 2^(64 - halvings): a token with the 15 before it in its document; count(DISTINCT hash) << halvings is the number of distinct tokens';

CREATE VIEW pieces AS
SELECT pack_id, family, objective, domain, split, doc, document_ids[doc + 1] AS document_id,
       CASE kind WHEN 0 THEN 'text' ELSE 'generated' END AS kind,
       token_start, token_end, byte_start, byte_end
FROM (SELECT pack_id, family, objective, domain, split, document_ids,
             unnest(pieces, recursive := true)
      FROM rows);
COMMENT ON VIEW pieces IS 'which tokens of a row encode which bytes of which document';

CREATE VIEW mixtures AS
SELECT a.specialist, a.phase, a.current, m.* EXCLUDE (path), a.created, a.path, a.report
FROM internal.mixtures m JOIN artefacts a ON a.path = m.path;
COMMENT ON VIEW mixtures IS 'mixture plans, one line a plan, with what the mix counted';

CREATE VIEW strata AS
SELECT a.specialist, a.phase, a.current, s.* EXCLUDE (key, path), s.key AS mixture_key, a.path
FROM internal.strata s JOIN artefacts a ON a.path = s.path;
COMMENT ON VIEW strata IS
    'what each plan takes of each serving in each domain: share asked and served, rows there are and drawn';

CREATE VIEW mixture_rows AS
SELECT d.* EXCLUDE (file), a.specialist, a.phase, a.key AS mixture_key, a.path AS mixture
FROM $plan d JOIN internal.data f ON f.file = d.file JOIN artefacts a ON a.path = f.path;
COMMENT ON VIEW mixture_rows IS
    'the plans row by row, in training order: what a run to the end of its budget trains on; `steps` has what a run has read';

CREATE VIEW left_out AS
SELECT d.* EXCLUDE (file), a.specialist, a.phase, a.key AS mixture_key, a.path AS mixture
FROM $left_out d JOIN internal.data f ON f.file = d.file JOIN artefacts a ON a.path = f.path;
COMMENT ON VIEW left_out IS 'rows that a plan must not hold, a line a time that one would have come';

CREATE VIEW attempts AS
SELECT r.* EXCLUDE (path), coalesce(a.current, p.place IS NULL) AS current, r.path
FROM internal.runs r
LEFT JOIN artefacts a USING (path)
LEFT JOIN internal.places p
    ON p.stage = 'runs' AND p.specialist = r.specialist AND p.phase = r.phase;
COMMENT ON VIEW attempts IS
    'attempts at training runs with val_bpb before and after; state: finished, running, failed or interrupted; current: in use, and of an attempt that isn''t finished that no finished run of its phase is; ordinal: by when it began';

CREATE VIEW runs AS
SELECT * EXCLUDE (current) FROM attempts WHERE current;
COMMENT ON VIEW runs IS 'the attempts that are current, with the same columns: one that another took the place of is no run';

CREATE VIEW metrics AS
SELECT d.* EXCLUDE (file), a.specialist, a.phase, a.key AS run_key, r.attempt, a.path AS run
FROM $metrics d JOIN internal.data f ON f.file = d.file JOIN artefacts a ON a.path = f.path
LEFT JOIN internal.runs r ON r.path = f.path
UNION ALL BY NAME
SELECT m.* EXCLUDE (path), r.specialist, r.phase, r.key AS run_key, r.attempt, r.path AS run
FROM internal.open_metrics m JOIN internal.runs r USING (path);
COMMENT ON VIEW metrics IS
    'a line a training step, of open runs too: loss, gradient norm, rate, speed, context';

CREATE VIEW evaluations AS
SELECT a.specialist, a.phase AS run_phase, r.attempt,
       try_cast(regexp_extract(d.file, '/step=([0-9]+)/', 1) AS BIGINT) AS step,
       d.set, d.phase, d.family, d.objective, d.domain, d.row_length, d.document_id,
       o.repository, o.path, o."commit", d.lineage,
       d.nats, d.bytes, d.tokens, d.nats / ln(2) / nullif(d.bytes, 0) AS bits_per_byte,
       d.rows_key, a.key AS run_key, a.path AS run
FROM $evaluations d JOIN internal.data f ON f.file = d.file JOIN artefacts a ON a.path = f.path
LEFT JOIN internal.runs r ON r.path = f.path
LEFT JOIN internal.origins o ON o.document_id = d.document_id;
COMMENT ON VIEW evaluations IS
    'a line a held-out document of each set that a run was measured on at a step: nats, bytes and number of its scored tokens';

CREATE VIEW status AS
WITH mixed AS (
    SELECT p.specialist, p.phase, p.path AS mixture, m.created
    FROM internal.places p JOIN mixtures m ON m.path = p.path
), trained AS (
    SELECT specialist, phase, max_by(path, (state = 'finished', ordinal, attempt)) AS run
    FROM (
        SELECT p.specialist, p.phase, r.path, r.state, r.ordinal, r.attempt
        FROM internal.places p JOIN attempts r ON r.path = p.path
        UNION ALL
        SELECT specialist, phase, path, state, ordinal, attempt
        FROM attempts WHERE state != 'finished'
    )
    GROUP BY ALL
)
SELECT specialist, phase, coalesce(s.state, 'unknown') AS state,
       coalesce(s.why, 'its status wasn''t computed yet') AS why,
       r.attempt, r.stopped, r.study, m.budget, m.tokens AS planned_tokens, m.steps AS planned_steps,
       r.steps, r.valid_tokens, r.phase_bpb_before, r.phase_bpb_after, r.anchor_bpb_before,
       r.anchor_bpb_after, r.seconds, r.gpu_seconds, r.cost, p.created,
       m.key AS mixture_key, r.key AS run_key, p.mixture, r.path AS run
FROM internal.statuses s
FULL JOIN mixed p USING (specialist, phase)
FULL JOIN trained t USING (specialist, phase)
LEFT JOIN mixtures m ON m.path = p.mixture
-- Marks are newer than a written status; of an attempt that isn't finished only the status knows whether it stands.
LEFT JOIN attempts r
    ON r.path = if(s.state IN ('running', 'waiting', 'failed', 'interrupted'), coalesce(s.path, t.run), t.run)
ORDER BY s.number NULLS LAST, specialist, p.created;
COMMENT ON VIEW status IS
    'a line for each phase of each specialist, in the order of its diet: state and why, as of the last `curriculum status` or run, the mixture in use and the run that stands for it';
