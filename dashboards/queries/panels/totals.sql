-- What are the totals of the workspace?
-- tokens: valid tokens of current runs; cost: of all attempts, if a GPU price was set.
SELECT (SELECT count(*) FROM artefacts) AS artefacts,
       (SELECT coalesce(sum(num_bytes), 0)::BIGINT FROM artefacts) AS num_bytes,
       (SELECT coalesce(sum(num_bytes) FILTER (WHERE NOT current), 0)::BIGINT FROM artefacts) AS unused_bytes,
       (SELECT count(DISTINCT specialist) FROM status) AS specialists,
       (SELECT count(*) FROM status WHERE phase <> '') AS phases,
       (SELECT count(*) FROM status WHERE state = 'done') AS done,
       (SELECT count(*) FROM attempts WHERE state = 'running') AS running,
       (SELECT coalesce(sum(valid_tokens), 0)::BIGINT FROM status) AS tokens,
       (SELECT coalesce(sum(budget), 0)::BIGINT FROM status) AS budget,
       (SELECT coalesce(sum(seconds), 0.0) FROM attempts) AS seconds,
       (SELECT coalesce(sum(gpu_seconds), 0.0) FROM attempts) AS gpu_seconds,
       (SELECT sum(cost) FROM attempts) AS cost
