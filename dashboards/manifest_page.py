"""Page of manifests: the labels, settings, inputs, reports and files of artefacts."""

import json
import re
from pathlib import Path

from pydantic import JsonValue

from curriculum.inspection.formats import number
from curriculum.pipeline.references import with_keys
from curriculum.store import Store
from curriculum.store.artefact import KEY_DIGITS
from dashboards import html, palette
from schemas.errors import CurriculumError

TEMPLATE = "manifest.html"
_KEYS = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}(,[0-9a-f]{{{KEY_DIGITS}}})*")


def page(home: Path, keys: str) -> str | None:
    """Return a page with the manifests of artefacts; `keys` are the first 12 digits of their keys.

    The keys are separated by commas. None if they are malformed or the workspace has no such artefact.
    """
    if not _KEYS.fullmatch(keys):
        return None
    store = Store(home, dry=True)
    try:
        found, problem = with_keys(store, keys.split(",")), ""
    except CurriculumError as refused:
        found, problem = [], str(refused)
    if not found and not problem:
        return None
    title = number(len(found), "manifest")
    if len(found) == 1:
        title = f"Manifest of {found[0].key[:KEY_DIGITS]}"
    return html.page(
        TEMPLATE,
        style=palette.properties() + html.asset("lists.css"),
        title=title,
        artefacts=found,
        root=store.root,
        digits=KEY_DIGITS,
        as_text=_as_text,
        problem=problem,
    )


def _as_text(values: dict[str, JsonValue]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False)
