-- Which stages fill the disk, and how much would gc remove?
SELECT stage, count(*) AS artefacts, sum(num_bytes)::BIGINT AS num_bytes,
       count(*) FILTER (WHERE NOT current) AS unused,
       coalesce(sum(num_bytes) FILTER (WHERE NOT current), 0)::BIGINT AS unused_bytes
FROM artefacts
GROUP BY stage
ORDER BY num_bytes DESC, stage
