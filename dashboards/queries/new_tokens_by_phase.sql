-- How much of what each phase trains on is new text?
-- Scored tokens that a phase read; different ones among them, each told by the 15 tokens before it; and those that no earlier phase showed. repetition: scored tokens of all phases so far divided by distinct ones.
SELECT specialist, phase, scored_tokens, distinct_tokens, new_tokens, round(token_repetition, 2) AS repetition
FROM distinct_tokens('templates/*/anneal')
