"""A diet that extends another: what it says takes the place of what the other says.

`phases`, where it is given, is the whole list in its order; what an entry leaves out is that of the
other's phase of the same name. So `- {phase: syntax}` keeps a phase as it is, and a phase that isn't
listed is dropped.
"""

from collections.abc import Mapping
from typing import Any

FIELD = "extends"


def merged(child: Mapping[str, Any], parent: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a diet that says `child` and extends `parent`; what it says wrongly stays so.

    >>> parent = {"seed": 3, "phases": [{"phase": "a", "portion": 0.5}, {"phase": "b", "portion": 0.5}]}
    >>> merged({"phases": [{"phase": "b", "portion": 1.0}]}, parent)
    {'seed': 3, 'phases': [{'phase': 'b', 'portion': 1.0}]}
    """
    phases = {phase["phase"]: phase for phase in parent["phases"]}
    content = {**parent, **child}
    if isinstance(child.get("phases"), list):
        content["phases"] = [_filled(entry, phases) for entry in child["phases"]]
    return content


def _filled(entry: object, phases: Mapping[str, Any]) -> object:
    """An entry of the list with what it leaves out."""
    if not isinstance(entry, dict) or not isinstance(entry.get("phase"), str):
        return entry
    return {**phases.get(entry["phase"], {}), **entry}
