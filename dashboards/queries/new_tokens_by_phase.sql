-- How much new text does each phase train on?
-- Scored tokens that a phase read, the distinct tokens among them, and the tokens that no earlier phase read. Two tokens
-- are the same if the 15 tokens before them are also the same. repetition is the number of scored tokens of all phases so
-- far, divided by the number of distinct ones.
SELECT specialist, phase, scored_tokens, distinct_tokens, new_tokens, round(token_repetition, 2) AS repetition
FROM distinct_tokens('templates/*/anneal')
