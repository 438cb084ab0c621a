-- Why was a file or document excluded?
-- Documents that the selection rejected, by rule, with an example; and inputs from which a family made no document, by
-- reason.
SELECT 'selection' AS decided_by, family, repository, reason || ': ' || rule AS why,
       count(*) AS documents, min(lineage || '  ' || coalesce(evidence, '')) AS example
FROM rejected
GROUP BY ALL
UNION ALL
SELECT 'documents', family, repository, why,
       (report->'$.left_out'->>why)::BIGINT AS documents, NULL
FROM (
    SELECT family, repository, report, unnest(json_keys(report, '$.left_out')) AS why
    FROM artefacts
    WHERE stage = 'documents' AND current AND json_type(report, '$.left_out') = 'OBJECT'
)
ORDER BY documents DESC, decided_by, family, repository, why
