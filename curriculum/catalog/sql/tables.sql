-- What manifests, jobs and reports say. `path` is where an artefact lies, relative to the workspace.

CREATE TABLE artefacts AS
SELECT a.* EXCLUDE (path), a.path, l.path IS NOT NULL AS current
FROM $artefacts a LEFT JOIN $live l USING (path)
ORDER BY a.path;
COMMENT ON TABLE artefacts IS
    'everything that was published; current: whether it is in use, or an input of what is';

CREATE TABLE inputs AS
SELECT DISTINCT i.* EXCLUDE (path) FROM $inputs i;
COMMENT ON TABLE inputs IS
    'what each artefact was made of: the name of each input, its key and the content it had';

CREATE TABLE files AS
SELECT f.* EXCLUDE (path), a.current FROM $files f JOIN artefacts a USING (path);
COMMENT ON TABLE files IS
    'every file of every artefact, with its digest and size; file is relative to the workspace';

CREATE TABLE internal.runs AS
SELECT * FROM $runs UNION ALL BY NAME SELECT * FROM $open_runs;

CREATE TABLE internal.open_metrics AS
SELECT * FROM $open_metrics;

CREATE TABLE figures AS
SELECT f.* EXCLUDE (path), f.path AS run, a.current FROM $figures f JOIN artefacts a USING (path);
COMMENT ON TABLE figures IS
    'every val_bpb that a run measured, before, during and after; not is_sure: of too few documents to tell';

CREATE TABLE internal.mixtures AS
SELECT * FROM $mixtures;

CREATE TABLE internal.strata AS
SELECT * FROM $strata;

-- Which artefact each data file belongs to.
CREATE TABLE internal.data AS
SELECT file, path FROM $data;

CREATE TABLE marks AS
SELECT mark, path FROM $marks;
COMMENT ON TABLE marks IS
    'which artefacts stand under which name in current/: the newest build, mixture and run of each phase';

CREATE TABLE problems AS
SELECT * FROM $problems ORDER BY path;
COMMENT ON TABLE problems IS
    'artefacts and files that can''t be read, and why; every view answers without them';

-- Who uses what: a specialist may continue from a run that lies with another. A mark is runs+templates@demo+syntax.
CREATE TABLE internal.places AS
SELECT m.names[1] AS stage, array_to_string(m.names[2:], '+') AS place, replace(m.names[2], '@', '/') AS specialist,
       m.names[3] AS phase, m.path
FROM (SELECT string_split(mark, '+') AS names, path FROM marks) m
JOIN artefacts a ON a.path = m.path
WHERE m.names[1] IN ('mixtures', 'runs');

CREATE TABLE internal.statuses AS
SELECT row_number() OVER () AS number, * FROM $status;
