-- How fast was each phase, and how much of its work was padding?
SELECT specialist, phase, attempt, count(*) AS steps, round(sum(seconds), 1) AS seconds,
       round(sum(valid_tokens) / sum(seconds)) AS valid_tokens_per_second,
       round(100 * avg(padding_share), 2) AS padding_percent,
       round(100 * avg(attention_density), 1) AS attention_percent,
       round(sum(mean_context * scored_tokens) / sum(scored_tokens), 1) AS mean_context
FROM metrics
GROUP BY ALL
ORDER BY specialist, phase, attempt
