"""Ablations: arms that differ in one thing, trained with the same seeds, and verdicts on claims about them.

arms.py        diets of the arms
evidence.py    trained arms: measurements of the last run, counts over all runs
verdicts.py    paired differences over seeds, tests, verdicts
documents.py   intervals of the same differences over documents
ablate.py      all arms trained, claims judged, published as one artefact
"""
