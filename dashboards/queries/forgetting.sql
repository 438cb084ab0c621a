-- Does a phase forget what earlier phases learnt?
-- val_bpb on the rows of each earlier phase, at the end of that phase and at the end of a later phase. If forgotten is
-- above 0, the model forgot.
SELECT later.specialist, later.phase AS of_phase, later.run_phase AS after_phase,
       round(own.val_bpb, 4) AS then, round(later.val_bpb, 4) AS now,
       round(later.val_bpb - own.val_bpb, 4) AS forgotten,
       later.is_sure AND later.low > own.val_bpb AS is_sure, later.documents, later.lineages
FROM figures later
JOIN figures own ON own.specialist = later.specialist
    AND own.run_phase = later.phase AND own.phase = later.phase
    AND own.current AND own.set = 'phase' AND own.moment = 'after' AND own.family = '*'
WHERE later.current AND later.set = 'phase' AND later.moment = 'after' AND later.family = '*'
    AND later.run_phase <> later.phase
ORDER BY later.specialist, of_phase, now
