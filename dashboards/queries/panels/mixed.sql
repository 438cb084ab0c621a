-- Which mixtures are in use?
-- One per phase of a specialist, in the order in which they were first mixed.
SELECT p.specialist, p.phase, m.warnings
FROM status p
JOIN mixtures m ON m.path = p.mixture
LEFT JOIN (
    SELECT specialist, phase, min(created) AS first FROM mixtures GROUP BY ALL
) o ON o.specialist = p.specialist AND o.phase = p.phase
ORDER BY p.specialist, coalesce(o.first, p.created)
