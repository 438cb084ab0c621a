"""Artefacts on disk: directories with files and a manifest that is written last.

artefact.py       published directories with their manifests, recipes and keys
store.py          find, build, publish and verify artefacts
explain.py        differences from the previous version, as a tree
leases.py         keys used by running processes
owners.py         the processes named in records, and whether they are alive
attempt_state.py  state and progress of unfinished attempts at runs
inside.py         files of a workspace: names, locks, removal
gc.py             unreferenced artefacts, and their removal via .trash
marks.py          lists of live artefacts in current/
os_errors.py      errors of the operating system, for example a full disk
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
