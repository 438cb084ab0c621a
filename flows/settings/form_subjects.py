"""Subject of a flow run: the name of the diet or ablation file that the flow run's form contains."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def form_subject(parameters: Mapping[str, Any]) -> str:
    """Return the diet in a form's values, or the stem of its ablation file; empty if the form has neither.

    >>> form_subject({"specialist": "templates"}), form_subject({"file": "ablations/masks.yaml"})
    ('templates', 'masks')
    """
    named = parameters.get("specialist")
    return str(named) if named else Path(str(parameters.get("file", ""))).stem
