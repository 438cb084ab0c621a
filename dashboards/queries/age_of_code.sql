-- How old is the code, by repository?
-- Year of the commits that documents were made from. A specialist trained on old code writes old code.
SELECT repository, strftime(make_timestamp(timestamp * 1000000), '%Y') AS year, count(*) AS documents,
       sum(num_bytes)::BIGINT AS num_bytes
FROM documents
GROUP BY ALL
ORDER BY repository, year
