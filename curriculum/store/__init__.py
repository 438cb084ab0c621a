"""Everything is an artefact: a directory with its files and a manifest that is written last.

recipe.py    what an artefact is made from, and the key that follows
artefact.py  a published directory, and its manifest
store.py     find, make, publish, verify
explain.py   why something is made again
leases.py    the keys that running processes use
inside.py    plain files and folders below the root, reached through no link
owner.py     which process that is, and whether it still runs
collect.py   what nothing refers to any more, and its removal
trash.py     where it goes first
verify.py    files against what was published
merge.py     what other workspaces made
room.py      errors of the operating system, such as a full disk
"""

from curriculum.store.artefact import Artefact, Draft, published
from curriculum.store.collect import collect, garbage, strange
from curriculum.store.explain import Difference, Explanation, explain, explain_all
from curriculum.store.leases import in_lease
from curriculum.store.merge import merge
from curriculum.store.recipe import Input, Recipe, digest
from curriculum.store.room import no_room, refusal
from curriculum.store.store import Step, Store
from curriculum.store.verify import read_mark

__all__ = [
    "Artefact",
    "Difference",
    "Draft",
    "Explanation",
    "Input",
    "Recipe",
    "Step",
    "Store",
    "collect",
    "digest",
    "explain",
    "explain_all",
    "garbage",
    "in_lease",
    "merge",
    "no_room",
    "published",
    "read_mark",
    "refusal",
    "strange",
]
