"""Published artefacts as typed views, for the command line, reports and pages.

row_view.py            packed rows with their documents and commits
document_view.py       documents with their tokens, structure and facts
context_tree.py        context documents as trees
structure_text.py      text split by structure
line_selection.py      options of `inspect`, and the rows of an artefact that they select
lineage.py             inputs of an artefact, and its tokenizer
runs.py                reports of runs
comparison.py          runs side by side: settings, figures with verdicts, shares of mixtures
paired.py              two measurements compared document by document
step_metrics.py        training steps of runs
open_runs.py           training loss and val_bpb of open runs
losses.py              excluded documents by stage
token_counts.py        tokens by document and origin, and differences
checkpoint_weights.py  names and shapes of a checkpoint's tensors
build_tables.py        builds and mixtures as tables
run_tables.py          runs and their figures as tables
formats.py             numbers and times as text
units.py               the format of a figure by its name
"""
