-- What is stale?
-- Mixtures and runs that stand, although something newer took the place of what they were made of. A diet that was
-- edited since shows in `curriculum status`.
SELECT stage, specialist, branch, phase, why, path FROM stale()
