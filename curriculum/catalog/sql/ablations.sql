CREATE VIEW ablations AS
SELECT a.path AS artefact, d.* EXCLUDE (file)
FROM $claims d JOIN internal.data f ON f.file = d.file JOIN artefacts a ON a.path = f.path;
COMMENT ON VIEW ablations IS
    'claims of ablations with their verdicts: difference is val_bpb of arm less that of against, the mean over seeds, low and high its 95 % interval; null and control are the ablation''s own';

CREATE VIEW ablation_arms AS
SELECT a.path AS artefact, d.* EXCLUDE (file)
FROM $arms d JOIN internal.data f ON f.file = d.file JOIN artefacts a ON a.path = f.path;
COMMENT ON VIEW ablation_arms IS
    'what each arm of an ablation came to with each seed: val_bpb of each fixed set in each view, and steps, row positions and scored tokens of all its phases';
