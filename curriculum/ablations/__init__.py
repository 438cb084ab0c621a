"""Ablations: arms that differ in one aspect, trained with the same seeds, and verdicts on claims about them.

arms.py                diets of the arms
planned_arms.py        plans of the arms, check for equal steps, training
ablation_views.py      held-out rows in several formats, equal for all arms
measurements.py        evaluation of the last checkpoints on these rows
evidence.py            trained arms: final figures of each view, counts over all runs
verdicts.py            paired differences over seeds, tests, verdicts
document_intervals.py  intervals of the same differences over documents
equal_tokens.py        differences at equal numbers of distinct tokens
ablate.py              training of all arms, verdicts, and publication as one artefact
bundles.py             trainings of an ablation, exported for another machine
outcome_tables.py      the outcome as table rows
"""
