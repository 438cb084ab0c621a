-- Which source files were seen most often, over all families and phases?
-- Tokens read of a file divided by the distinct tokens of it: families render the same commits.
SELECT specialist, lineage, distinct_tokens, tokens_seen, round(repetition, 2) AS times
FROM source_repetition('templates/*/anneal')
QUALIFY row_number() OVER (PARTITION BY specialist ORDER BY repetition DESC, lineage) <= 20
ORDER BY specialist, repetition DESC, lineage
