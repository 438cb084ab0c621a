-- Which rows does each serving of a mixture read, as a line of a diet?
-- domains: factors by domain; repositories: of the corpus, empty for all; variants: renderings that repetitions alternate between; imported: the diet's name for imported rows; score: all, unless it is new; beside: the family whose commits are left out.
SELECT p.specialist, p.phase, s.serving,
       any_value(l.line->>'$.family') AS family, any_value(l.line->>'$.objective') AS objective,
       any_value((l.line->'$.row_length')::INTEGER) AS row_length, any_value(l.line->>'$.domains') AS domains,
       any_value(r.base) AS base, any_value(r.config->>'$.repositories') AS repositories,
       max(json_array_length(x.stratum->'$.variants'))::INTEGER AS variants,
       any_value(x.stratum->>'$.imported') AS imported, any_value(r.score) AS score,
       any_value(r.beside) AS beside
FROM status p
JOIN artefacts a ON a.path = p.mixture
JOIN strata s ON s.path = p.mixture,
LATERAL (SELECT a.config->'$.servings'->s.serving::INTEGER AS line) l,
LATERAL (SELECT a.report->'$.strata'->s.stratum::INTEGER AS stratum) x
LEFT JOIN artefacts r ON r.key = s.rows_key AND r.stage = 'rows'
GROUP BY ALL
ORDER BY p.specialist, p.phase, s.serving
