-- From the step of a run to the commits that it read, and back.

CREATE VIEW row_documents AS
SELECT u.pack_id, u.rows_key, u.family, u.objective, u.domain, u.split, u.row_length, u.doc,
       u.document_ids[u.doc + 1] AS document_id,
       u.doc_starts[u.doc + 1] AS token_start,
       coalesce(u.doc_starts[u.doc + 2], u.valid_token_count) AS token_end
FROM (
    SELECT pack_id, rows_key, family, objective, domain, split, row_length,
           document_ids, doc_starts, valid_token_count, unnest(range(num_docs)) AS doc
    FROM rows
) u;
COMMENT ON VIEW row_documents IS
    'a line for each document of each row, with the tokens [token_start, token_end) that it has there';

CREATE VIEW document_sources AS
SELECT u.documents_key, u.document_id, u.family, u.licence, u.source - 1 AS source,
       u.provenance[u.source].repository AS repository,
       u.provenance[u.source]."commit" AS "commit",
       u.provenance[u.source].path AS path,
       u.provenance[u.source].blob AS blob,
       u.provenance[u.source]."start" AS byte_start,
       u.provenance[u.source]."end" AS byte_end,
       u.provenance[u.source].lineage AS lineage
FROM (
    SELECT documents_key, document_id, family, licence, provenance,
           unnest(range(1, len(provenance) + 1)) AS source
    FROM documents
) u;
COMMENT ON VIEW document_sources IS
    'where each piece of a document came from: repository, commit, path, blob and bytes of it';

CREATE VIEW internal.document_commits AS
SELECT i.key AS rows_key, d.document_id, d.language, d.licence, d.repository, d.lineage,
       unnest(list_distinct([each."commit" for each in d.provenance])) AS "commit"
FROM documents d JOIN inputs i ON i.input_key = d.documents_key
WHERE i.stage = 'rows';

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

CREATE VIEW steps AS
SELECT w.run, w.run_key, w.attempt, w.specialist, w.branch, w.phase,
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
SELECT s.run, s.run_key, s.attempt, s.specialist, s.branch, s.phase, s.step, s.position, s.pack_id,
       r.family, r.objective, r.domain, s.row_length, s.valid_tokens, s.repetition,
       r.doc, r.document_id, r.token_end - r.token_start AS tokens,
       c.repository, c."commit", c.lineage AS file, c.language, c.licence
FROM steps s
JOIN row_documents r ON r.pack_id = s.pack_id AND r.rows_key = s.rows_key
LEFT JOIN internal.document_commits c
    ON c.rows_key = s.rows_key AND c.document_id = r.document_id;
COMMENT ON VIEW lineage IS
    'which step read which document of which commit: a line for each step, row, document and commit; file is what the document is about';

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
    'the runs that a run goes on from, itself included (back = 0), and the step until which each was gone through';

CREATE MACRO run_named(of_run) AS TABLE
SELECT w.run, w.run_key, w.attempt
FROM internal.walks w
LEFT JOIN internal.places p ON p.path = w.run
WHERE of_run IN (w.name, w.short_name, w.run, concat_ws('/', p.specialist, p.branch, p.phase))
   OR (length(of_run) >= 6 AND starts_with(w.run_key, lower(of_run)))
ORDER BY w.current DESC, w.created DESC NULLS FIRST, w.attempt DESC
LIMIT 1;
COMMENT ON MACRO TABLE run_named IS
    'the run that is meant by templates/syntax, templates/demo/syntax, its path or the first digits of its key: the newest in use';

CREATE MACRO consumed(of_run, at_step) AS TABLE
SELECT l.* FROM lineage l
WHERE l.run IN (SELECT n.run FROM run_named(of_run) n) AND l.step = at_step
ORDER BY l.position, l.doc, l."commit";
COMMENT ON MACRO TABLE consumed IS
    'what one step of a run read: rows, documents, commits and licences';

CREATE MACRO consumers(of_commit) AS TABLE
SELECT l.specialist, l.branch, l.phase, l.run, l.run_key, l.attempt, l.step,
       count(DISTINCT l.position) AS rows, count(DISTINCT l.document_id) AS documents,
       sum(l.tokens)::BIGINT AS tokens
FROM lineage l
WHERE starts_with(l."commit", lower(of_commit))
GROUP BY ALL
ORDER BY l.specialist, l.branch, l.phase, l.run_key, l.attempt, l.step;
COMMENT ON MACRO TABLE consumers IS
    'every step of every run that read something of a commit, by the first digits of its id';

CREATE MACRO consumers_of_document(of_document) AS TABLE
SELECT s.specialist, s.branch, s.phase, s.run, s.run_key, s.attempt, s.step,
       count(DISTINCT s.position) AS rows, count(DISTINCT r.document_id) AS documents,
       sum(r.token_end - r.token_start)::BIGINT AS tokens
FROM steps s JOIN row_documents r ON r.pack_id = s.pack_id AND r.rows_key = s.rows_key
WHERE starts_with(r.document_id, lower(of_document))
GROUP BY ALL
ORDER BY s.specialist, s.branch, s.phase, s.run_key, s.attempt, s.step;
COMMENT ON MACRO TABLE consumers_of_document IS
    'every step of every run that read a document, by the first digits of its id';

CREATE MACRO consumers_of_row(of_pack) AS TABLE
SELECT s.specialist, s.branch, s.phase, s.run, s.run_key, s.attempt, s.step,
       count(DISTINCT s.position) AS rows, count(DISTINCT r.document_id) AS documents,
       sum(r.token_end - r.token_start)::BIGINT AS tokens
FROM steps s JOIN row_documents r ON r.pack_id = s.pack_id AND r.rows_key = s.rows_key
WHERE s.pack_id = of_pack AND r.pack_id = of_pack
GROUP BY ALL
ORDER BY s.specialist, s.branch, s.phase, s.run_key, s.attempt, s.step;
COMMENT ON MACRO TABLE consumers_of_row IS 'every step of every run that read a row, by its pack_id';

CREATE MACRO consumers_of_file(of_path) AS TABLE
WITH wanted AS (
    SELECT d.rows_key, d.document_id, d.is_about,
           [part for part in d.parts if list_contains(d.sources, part.source)] AS parts
    FROM (
        SELECT i.key AS rows_key, e.document_id, e.parts, e.sources,
               of_path IN (e.lineage, substr(e.lineage, length(e.repository) + 2)) AS is_about
        FROM (
            SELECT documents_key, document_id, repository, lineage, parts,
                   [nth for nth in range(len(provenance)) if of_path IN (
                        provenance[nth + 1].path,
                        provenance[nth + 1].repository || ':' || provenance[nth + 1].path,
                        provenance[nth + 1].lineage)] AS sources
            FROM documents
        ) e
        JOIN inputs i ON i.input_key = e.documents_key
        WHERE i.stage = 'rows'
    ) d
    WHERE d.is_about OR len(d.sources) > 0
), held AS (
    SELECT r.pack_id, r.rows_key, r.document_id, r.tokens
    FROM (
        SELECT u.*, u.document_ids[u.doc + 1] AS document_id,
               coalesce(u.doc_starts[u.doc + 2], u.valid_token_count) - u.doc_starts[u.doc + 1] AS tokens
        FROM (SELECT pack_id, rows_key, pieces, document_ids, doc_starts, valid_token_count,
                     unnest(range(num_docs)) AS doc FROM rows) u
    ) r
    JOIN wanted w ON w.rows_key = r.rows_key AND w.document_id = r.document_id
    WHERE w.is_about OR len([piece for piece in r.pieces
        if piece.doc = r.doc AND piece.kind = 0 AND len([part for part in w.parts
            if part."start" < piece.byte_end AND part."end" > piece.byte_start]) > 0]) > 0
)
SELECT s.specialist, s.branch, s.phase, s.run, s.run_key, s.attempt, s.step,
       count(DISTINCT s.position) AS rows, count(DISTINCT h.document_id) AS documents,
       sum(h.tokens)::BIGINT AS tokens
FROM steps s JOIN held h ON h.pack_id = s.pack_id AND h.rows_key = s.rows_key
GROUP BY ALL
ORDER BY s.specialist, s.branch, s.phase, s.run_key, s.attempt, s.step;
COMMENT ON MACRO TABLE consumers_of_file IS
    'every step of every run that read a document about a file, or one with a piece of it as context; the file as its path, repository:path or lineage';

CREATE MACRO seen_before(of_run, at_step) AS TABLE
SELECT a.back, s.run, s.run_key, s.attempt, s.specialist, s.branch, s.phase, s.step, s.position,
       s.pack_id, s.rows_key, s.row_length, s.valid_tokens, s.repetition
FROM ancestry a JOIN steps s ON s.run = a.before
WHERE a.run IN (SELECT n.run FROM run_named(of_run) n)
  AND s.step <= CASE a.back WHEN 0 THEN at_step - 1 ELSE a.until_step END
ORDER BY a.back DESC, s.position;
COMMENT ON MACRO TABLE seen_before IS
    'the rows that a model had read when a step of a run began, in that run and in those that it goes on from; back: how many runs ago';

CREATE MACRO consumed_until(of_run, last_step) AS TABLE
SELECT a.back, l.*
FROM ancestry a JOIN lineage l ON l.run = a.before
WHERE a.run IN (SELECT n.run FROM run_named(of_run) n)
  AND l.step <= CASE a.back WHEN 0 THEN last_step ELSE a.until_step END
ORDER BY a.back DESC, l.position, l.doc, l."commit";
COMMENT ON MACRO TABLE consumed_until IS
    'all that a model read until a step of a run, that step and the runs before included; back: how many runs ago';

CREATE VIEW checkpoints AS
SELECT r.path AS run, r.key AS run_key, r.attempt, r.specialist, r.branch, r.phase, c.step, c.path
FROM (
    SELECT DISTINCT regexp_extract(file, '^(.*/attempt=\d+)/checkpoints/step=\d+/', 1) AS run,
           regexp_extract(file, '^.*/checkpoints/step=\d+') AS path,
           regexp_extract(file, '/checkpoints/step=(\d+)/', 1)::BIGINT AS step
    FROM files
    WHERE file LIKE 'runs/%/checkpoints/step=%'
) c
JOIN runs r ON r.path = c.run;
COMMENT ON VIEW checkpoints IS 'the checkpoints of finished runs, by run and step';

CREATE MACRO checkpoints_after(of_run, of_step) AS TABLE
SELECT c.*
FROM checkpoints c JOIN ancestry a ON a.run = c.run
WHERE a.before IN (SELECT n.run FROM run_named(of_run) n)
  AND CASE a.back WHEN 0 THEN c.step ELSE a.until_step END >= of_step
ORDER BY a.back, c.specialist, c.branch, c.phase, c.step;
COMMENT ON MACRO TABLE checkpoints_after IS
    'the checkpoints whose models went through a step of a run, of that run and of all that go on from it';

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
SELECT r.pack_id, r.doc, r.token_start, r.token_end, r.document_id, s.licence, s.source,
       s.repository, s."commit", s.path, s.blob, s.byte_start, s.byte_end,
       coalesce(b.num_bytes, 0)::BIGINT AS bytes_in_row
FROM row_documents r
JOIN inputs i ON i.key = r.rows_key
JOIN document_sources s ON s.documents_key = i.input_key AND s.document_id = r.document_id
LEFT JOIN internal.bytes_in_rows b
    ON b.pack_id = r.pack_id AND b.doc = r.doc
    AND b.documents_key = s.documents_key AND b.source = s.source
WHERE r.pack_id = of_pack
ORDER BY r.doc, s.repository, s.source;
COMMENT ON MACRO TABLE provenance IS
    'where the documents of a row came from, down to bytes of a blob; bytes_in_row are those that stand in the row as they are';
