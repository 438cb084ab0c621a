-- From the step of a run to the commits that it read, and back.

CREATE VIEW internal.row_parts AS
SELECT u.pack_id, u.rows_key, u.family, u.objective, u.domain, u.split, u.row_length, u.doc,
       u.document_ids[u.doc + 1] AS document_id,
       u.doc_starts[u.doc + 1] AS token_start,
       coalesce(u.doc_starts[u.doc + 2], u.valid_token_count) AS token_end, u.pieces
FROM (
    SELECT pack_id, rows_key, family, objective, domain, split, row_length,
           document_ids, doc_starts, valid_token_count, pieces, unnest(range(num_docs)) AS doc
    FROM rows
) u;

CREATE VIEW row_documents AS
SELECT * EXCLUDE (pieces) FROM internal.row_parts;
COMMENT ON VIEW row_documents IS
    'a line for each document of each row, with the tokens [token_start, token_end) that it has there';

CREATE VIEW document_sources AS
SELECT u.documents_key, u.document_id, u.family, u.provenance[u.source].licence AS licence, u.source - 1 AS source,
       u.provenance[u.source].licence_evidence AS licence_evidence, u.provenance[u.source].holder AS holder,
       u.provenance[u.source].repository AS repository,
       u.provenance[u.source].path AS path,
       u.provenance[u.source]."commit" AS "commit",
       u.provenance[u.source].blob AS blob,
       u.provenance[u.source]."start" AS byte_start,
       u.provenance[u.source]."end" AS byte_end,
       u.provenance[u.source].lineage AS lineage
FROM (
    SELECT documents_key, document_id, family, provenance,
           unnest(range(1, len(provenance) + 1)) AS source
    FROM documents
) u;
COMMENT ON VIEW document_sources IS
    'where each piece of a document came from: repository, commit, path, licence and holder, blob and bytes of it';

CREATE VIEW internal.document_commits AS
SELECT i.key AS rows_key, d.document_id, d.language, d.licence, d.repository, d.path,
       unnest(list_distinct([each."commit" for each in d.provenance])) AS "commit"
FROM documents d JOIN inputs i ON i.input_key = d.documents_key
WHERE i.stage = 'rows';

CREATE VIEW steps AS
SELECT w.run, w.run_key, w.attempt, w.specialist, w.phase,
       m.slot // w.slots_per_step + 1 AS step,
       m.position, m.slot, m.serving, m.stratum, m.pack_id, m.rows_key, m.row_length,
       m.repetition, m.valid_tokens
FROM mixture_rows m
JOIN (SELECT key, min(path) AS path FROM artefacts WHERE stage = 'mixtures' AND current GROUP BY key) p
    ON p.path = m.mixture
JOIN internal.walks w ON w.mixture_key = p.key
WHERE m.slot < w.steps * w.slots_per_step;
COMMENT ON VIEW steps IS
    'the rows that the steps of a run have read, a line a row, in their order; steps count from 1';

CREATE VIEW lineage AS
SELECT s.run, s.run_key, s.attempt, s.specialist, s.phase, s.step, s.position, s.pack_id,
       r.family, r.objective, r.domain, s.row_length, s.valid_tokens, s.repetition,
       r.doc, r.document_id, r.token_end - r.token_start AS tokens,
       c.repository, c.path, c."commit", c.language, c.licence
FROM steps s
JOIN row_documents r ON r.pack_id = s.pack_id AND r.rows_key = s.rows_key
LEFT JOIN internal.document_commits c
    ON c.rows_key = s.rows_key AND c.document_id = r.document_id;
COMMENT ON VIEW lineage IS
    'which step read which document of which commit: a line for each step, row, document and commit; path is the file that the document is about';

CREATE VIEW ancestry AS
WITH RECURSIVE line AS (
    SELECT w.run, w.run_key, w.attempt, w.run AS before, w.run_key AS before_key,
           w.attempt AS before_attempt, w.phase, w.steps AS until_step, 0 AS back
    FROM internal.walks w
    UNION ALL
    SELECT l.run, l.run_key, l.attempt, b.run, b.run_key, b.attempt, b.phase, w.parent_step, l.back + 1
    FROM line l
    JOIN internal.walks w ON w.run = l.before
    JOIN internal.walks b ON b.run = w.parent_run
)
SELECT * FROM line;
COMMENT ON VIEW ancestry IS
    'the runs that a run continues from, itself included (back = 0), and the last step of each that counts';

CREATE MACRO run_named(of_run) AS TABLE
SELECT __a.__run AS run, __a.__run_key AS run_key, __a.__attempt AS attempt
FROM internal.run_asked(of_run, NULL) __a
WHERE internal.stands(__a.__run IS NOT NULL, __a.__fault)
ORDER BY __a.__specialist;
COMMENT ON MACRO TABLE run_named IS
    'the run that is meant by templates/syntax, templates/wide/syntax, its path or the first digits of its key: the newest in use; by templates/*/syntax that of templates and of each templates/…';

CREATE MACRO consumed(of_run, at_step) AS TABLE
SELECT __l.*
FROM internal.run_asked(of_run, at_step) __a
LEFT JOIN main.lineage __l ON __l.run = __a.__run AND __l.step = __a.__step
WHERE internal.stands(__l.run IS NOT NULL, coalesce(__a.__fault, __a.__step_fault))
ORDER BY __l.specialist, __l.position, __l.doc, __l."commit";
COMMENT ON MACRO TABLE consumed IS
    'what one step of a run read: rows, documents, commits and licences';

-- Ids that a question may ask the readers of, some of them several times.
CREATE VIEW internal.ids AS
SELECT 'commit' AS kind, "commit" AS id FROM document_sources
UNION ALL SELECT 'document', document_id FROM documents
UNION ALL SELECT 'document', document_id FROM row_documents
UNION ALL SELECT 'row', pack_id FROM rows
UNION ALL SELECT 'file', unnest([path, repository || ':' || path, lineage]) FROM document_sources
UNION ALL SELECT 'file', unnest([lineage, substr(lineage, length(repository) + 2)]) FROM documents;

CREATE MACRO consumers(of_id) AS TABLE
WITH __asked AS (
    SELECT DISTINCT __a.__id, __k.kind, __k.id
    FROM (SELECT of_id AS __id) __a
    LEFT JOIN internal.ids __k ON __k.id = __a.__id
        OR (__k.kind IN ('commit', 'document') AND starts_with(__k.id, lower(__a.__id)))
), __files AS (
    SELECT __i.key AS rows_key, __e.__id, __e.document_id, __e.is_about,
           [__part for __part in __e.parts if list_contains(__e.sources, __part.source)] AS parts
    FROM (
        SELECT __a.__id, __d.documents_key, __d.document_id, __d.parts,
               __a.id IN (__d.lineage, substr(__d.lineage, length(__d.repository) + 2)) AS is_about,
               [__nth for __nth in range(len(__d.provenance)) if __a.id IN (
                    __d.provenance[__nth + 1].path,
                    __d.provenance[__nth + 1].repository || ':' || __d.provenance[__nth + 1].path,
                    __d.provenance[__nth + 1].lineage)] AS sources
        FROM __asked __a JOIN main.documents __d ON __a.kind = 'file'
    ) __e
    JOIN main.inputs __i ON __i.input_key = __e.documents_key AND __i.stage = 'rows'
    WHERE __e.is_about OR len(__e.sources) > 0
), __read AS (
    SELECT __a.__id, __s.run, __s.step, __s.position, __r.doc, __r.document_id,
           __r.token_end - __r.token_start AS tokens
    FROM __files __a
    JOIN internal.row_parts __r ON __r.rows_key = __a.rows_key AND __r.document_id = __a.document_id
        AND (__a.is_about OR len([__piece for __piece in __r.pieces
            if __piece.doc = __r.doc AND __piece.kind = 0 AND len([__part for __part in __a.parts
                if __part."start" < __piece.byte_end AND __part."end" > __piece.byte_start]) > 0]) > 0)
    JOIN main.steps __s ON __s.pack_id = __r.pack_id AND __s.rows_key = __r.rows_key
    UNION
    SELECT __a.__id, __l.run, __l.step, __l.position, __l.doc, __l.document_id, __l.tokens
    FROM __asked __a JOIN main.lineage __l ON __a.id = CASE __a.kind
        WHEN 'commit' THEN __l."commit" WHEN 'document' THEN __l.document_id WHEN 'row' THEN __l.pack_id END
)
SELECT __w.specialist, __w.phase, __w.run, __w.run_key, __w.attempt, __r.step,
       count(DISTINCT __r.position) AS rows, count(DISTINCT __r.document_id) AS documents,
       sum(__r.tokens)::BIGINT AS tokens
FROM (SELECT __k.__id, count(__k.id) AS known FROM __asked __k GROUP BY __k.__id) __a
LEFT JOIN (__read __r JOIN internal.walks __w ON __w.run = __r.run) ON __r.__id = __a.__id
WHERE internal.stands(__r.run IS NOT NULL, CASE WHEN __a.known = 0 THEN internal.unknown(
    'commit, document, row or file', __a.__id, 'the views document_sources and rows') END)
GROUP BY ALL
ORDER BY __w.specialist, __w.phase, __w.run_key, __w.attempt, __r.step;
COMMENT ON MACRO TABLE consumers IS
    'every step of every run that read something of a commit or document, by the first digits of its id; of a row, by its pack_id; or of a file, as its path, repository:path or lineage: documents about it and those with a piece of it';

CREATE MACRO seen_before(of_run, at_step) AS TABLE
SELECT __a.__specialist AS model_specialist, __y.back, __s.run, __s.run_key, __s.attempt, __s.specialist,
       __s.phase, __s.step, __s.position, __s.pack_id, __s.rows_key, __s.row_length,
       __s.valid_tokens, __s.repetition
FROM internal.run_asked(of_run, at_step) __a
LEFT JOIN (main.ancestry __y JOIN main.steps __s ON __s.run = __y.before)
    ON __y.run = __a.__run
    AND __s.step <= CASE __y.back WHEN 0 THEN __a.__step - 1 ELSE __y.until_step END
WHERE internal.stands(__s.run IS NOT NULL, __a.__fault)
ORDER BY __a.__specialist, __y.back DESC, __s.position;
COMMENT ON MACRO TABLE seen_before IS
    'the rows that a model had read when a step of a run began, in that run and in those that it continues from; model_specialist: of the run that is asked for; back: how many runs ago';

CREATE MACRO consumed_until(of_run, last_step) AS TABLE
SELECT __a.__specialist AS model_specialist, __y.back, __l.*
FROM internal.run_asked(of_run, last_step) __a
LEFT JOIN (main.ancestry __y JOIN main.lineage __l ON __l.run = __y.before)
    ON __y.run = __a.__run
    AND __l.step <= CASE __y.back WHEN 0 THEN __a.__step ELSE __y.until_step END
WHERE internal.stands(__l.run IS NOT NULL, __a.__fault)
ORDER BY __a.__specialist, __y.back DESC, __l.position, __l.doc, __l."commit";
COMMENT ON MACRO TABLE consumed_until IS
    'all that a model read until a step of a run, that step and the runs before included; model_specialist: of the run that is asked for; back: how many runs ago';

CREATE VIEW checkpoints AS
SELECT r.path AS run, r.key AS run_key, r.attempt, r.specialist, r.phase, c.step, c.path
FROM (
    SELECT DISTINCT regexp_extract(file, '^(.*/attempt=\d+)/checkpoints/step=(?:0|[1-9]\d{0,17})/', 1) AS run,
           regexp_extract(file, '^.*/checkpoints/step=(?:0|[1-9]\d{0,17})') AS path,
           regexp_extract(file, '/checkpoints/step=(0|[1-9]\d{0,17})/', 1)::BIGINT AS step
    FROM files
    WHERE regexp_matches(file, '^runs/.*/attempt=\d+/checkpoints/step=(0|[1-9]\d{0,17})/')
) c
JOIN attempts r ON r.path = c.run;
COMMENT ON VIEW checkpoints IS 'the checkpoints of finished runs, by run and step';

CREATE MACRO checkpoints_after(of_run, of_step) AS TABLE
SELECT __c.*
FROM internal.run_asked(of_run, of_step) __a
LEFT JOIN (main.ancestry __y JOIN main.checkpoints __c ON __c.run = __y.run)
    ON __y.before = __a.__run
    AND CASE __y.back WHEN 0 THEN __c.step ELSE __y.until_step END >= __a.__step
WHERE internal.stands(__c.run IS NOT NULL, coalesce(__a.__fault, __a.__step_fault))
ORDER BY __y.back, __c.specialist, __c.phase, __c.step;
COMMENT ON MACRO TABLE checkpoints_after IS
    'the checkpoints whose models went through a step of a run, of that run and of all that continue from it';

CREATE VIEW internal.bytes_in_rows AS
SELECT u.pack_id, u.doc, u.documents_key, u.part.source AS source,
       sum(least(u.part."end", u.byte_end) - greatest(u.part."start", u.byte_start)) AS num_bytes
FROM (
    SELECT p.pack_id, p.piece.doc AS doc, d.documents_key,
           p.piece.byte_start AS byte_start, p.piece.byte_end AS byte_end,
           unnest([part for part in d.parts
                   if part.source >= 0 and part."start" < p.piece.byte_end
                      and part."end" > p.piece.byte_start]) AS part
    FROM (SELECT pack_id, rows_key, document_ids, unnest(pieces) AS piece FROM rows) p
    JOIN inputs i ON i.key = p.rows_key
    JOIN documents d
        ON d.documents_key = i.input_key AND d.document_id = p.document_ids[p.piece.doc + 1]
    WHERE p.piece.kind = 0
) u
GROUP BY ALL;

CREATE MACRO provenance(of_pack) AS TABLE
SELECT __r.pack_id, __r.doc, __r.token_start, __r.token_end, __r.document_id, __s.licence, __s.source,
       __s.repository, __s.path, __s."commit", __s.blob, __s.byte_start, __s.byte_end,
       coalesce(__b.num_bytes, 0)::BIGINT AS bytes_in_row
FROM (SELECT of_pack AS __pack) __a
LEFT JOIN (SELECT DISTINCT __n.id FROM internal.ids __n WHERE __n.kind = 'row') __k ON __k.id = __a.__pack
LEFT JOIN (main.row_documents __r
    JOIN main.inputs __i ON __i.key = __r.rows_key
    JOIN main.document_sources __s
        ON __s.documents_key = __i.input_key AND __s.document_id = __r.document_id
) ON __r.pack_id = __k.id
LEFT JOIN internal.bytes_in_rows __b
    ON __b.pack_id = __r.pack_id AND __b.doc = __r.doc
    AND __b.documents_key = __s.documents_key AND __b.source = __s.source
WHERE internal.stands(__s.source IS NOT NULL, CASE WHEN __k.id IS NULL
    THEN internal.unknown('row', __a.__pack, 'the view rows') END)
ORDER BY __r.doc, __s.repository, __s.source;
COMMENT ON MACRO TABLE provenance IS
    'where the documents of a row came from, down to bytes of a blob; bytes_in_row are those that stand in the row as they are';
