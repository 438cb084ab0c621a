-- What is stale?
-- Phases whose run isn't the one that diet, corpus and inputs lead to, as of the last `curriculum status` or run.
SELECT specialist, phase, why, run FROM status WHERE state = 'stale'
