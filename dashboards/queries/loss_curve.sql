-- How does the training loss fall?
-- Mean loss over every ten steps, the highest gradient norm of these steps, and the learning rate at the last of them.
SELECT specialist, phase, attempt, (step - 1) // 10 * 10 + 10 AS until_step,
       round(avg(loss), 4) AS loss, round(max(gradient_norm), 3) AS largest_gradient,
       round(arg_max(learning_rate, step), 6) AS learning_rate, sum(valid_tokens)::BIGINT AS tokens
FROM metrics
GROUP BY ALL
ORDER BY specialist, phase, attempt, until_step
