-- Which phases are stale?
-- Phases whose run no longer matches the diet, the corpus and the inputs, as of the last `curriculum status` or run.
SELECT specialist, phase, why, run FROM status WHERE state = 'stale'
