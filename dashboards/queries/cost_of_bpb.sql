-- How much time and money did each 0.01 bpb cost?
-- By phase, over all attempts. Money needs CURRICULUM_GPU_PRICE, the price of a GPU hour. Costs per 0.01 bpb are empty
-- if the phase didn't improve val_bpb.
SELECT specialist, phase, runs, valid_tokens, round(seconds, 1) AS seconds,
       round(cost, 2) AS cost, round(won, 4) AS bpb_won,
       round(seconds_per_hundredth, 2) AS seconds_per_hundredth,
       round(cost_per_hundredth, 4) AS cost_per_hundredth
FROM costs
ORDER BY specialist, seconds_per_hundredth
