"""Subject of a flow run: the diet or the ablation that its form names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def form_subject(parameters: Mapping[str, Any]) -> str:
    """Return the diet of a form, or the stem of its ablation file; empty if the form has neither.

    >>> form_subject({"specialist": "templates"}), form_subject({"file": "ablations/masks.yaml"})
    ('templates', 'masks')
    """
    named = parameters.get("specialist")
    return str(named) if named else Path(str(parameters.get("file", ""))).stem
