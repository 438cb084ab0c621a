"""Artefacts on disk: a directory with its files and a manifest that is written last.

artefact.py       a published directory, its manifest, its recipe and the key that follows from it
store.py          find, make, publish, verify
explain.py        differences from the last version, as a tree
leases.py         keys that running processes use
owners.py         the processes that records name, and whether they still live
attempt_state.py  attempts at runs that aren't finished: their state and progress
inside.py         files of a workspace: names, locks, removal
gc.py             artefacts that nothing refers to, and their removal by way of .trash
marks.py          the lists of live artefacts in current/
os_errors.py      errors of the operating system, such as a full disk
"""

from curriculum.store.artefact import Artefact, Input, Recipe, StagingDirectory, digest, published
from curriculum.store.explain import ChangedIngredient, Explanation, explain, explain_all
from curriculum.store.gc import collect_garbage, garbage, strange
from curriculum.store.leases import in_lease
from curriculum.store.marks import read_mark
from curriculum.store.os_errors import no_room, refusal
from curriculum.store.store import RecipeOutcome, Store

__all__ = [
    "Artefact",
    "ChangedIngredient",
    "Explanation",
    "Input",
    "Recipe",
    "RecipeOutcome",
    "StagingDirectory",
    "Store",
    "collect_garbage",
    "digest",
    "explain",
    "explain_all",
    "garbage",
    "in_lease",
    "no_room",
    "published",
    "read_mark",
    "refusal",
    "strange",
]
