"""Ablations: arms that differ in one aspect, trained with the same seeds, and verdicts on claims about them.

arms.py                the diets of the arms
planned_arms.py        the plans of the arms: check that all train equally many steps, then train them
ablation_views.py      held-out rows in several formats (views), the same for all arms
measurements.py        evaluation of the arms' last checkpoints on these rows
evidence.py            results of a trained arm: final figures in each view, counts over all of its runs
verdicts.py            paired differences over seeds, tests, verdicts
document_intervals.py  confidence intervals of the same differences over documents
equal_tokens.py        differences at equal numbers of distinct tokens
ablate.py              trains all arms, decides on the claims, and publishes one artefact
bundles.py             exports the trainings of an ablation for another machine
outcome_tables.py      the outcome as table rows
"""
