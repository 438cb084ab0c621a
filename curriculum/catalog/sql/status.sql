-- How each phase stood when its status was computed last.

CREATE TABLE status AS
SELECT * FROM $status;
COMMENT ON TABLE status IS
    'how each phase of each specialist stands and why, as of the last `curriculum status` or run';

CREATE MACRO stale() AS TABLE
SELECT __s.specialist, __s.phase, __s.key, __s.path, __s.why
FROM main.status __s
WHERE __s.state = 'stale'
ORDER BY ALL;
COMMENT ON MACRO TABLE stale IS
    'phases whose run isn''t the one that diet, corpus and inputs lead to, and why';
