"""Page of manifests: what some artefacts are, what they were made from, and what their producers counted."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from curriculum.inspection.formats import count, integer, number
from curriculum.pipeline.references import with_keys
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from dashboards import html, palette
from schemas.errors import CurriculumError

TEMPLATE = "manifest.html"
_KEYS = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}(,[0-9a-f]{{{KEY_DIGITS}}})*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """An artefact as its manifest describes it."""

    path: str
    key: str
    created: str
    size: str
    facts: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, str], ...]
    """The role of each input, and the first digits of its key."""
    files: tuple[tuple[str, str], ...]
    config: str
    report: str


def page(home: Path, keys: str) -> str | None:
    """The page of the artefacts with these keys, of 12 digits each and separated by commas.

    None for what are no such keys, and where the workspace has nothing of them.
    """
    if not _KEYS.fullmatch(keys):
        return None
    store = Store(home, dry=True)
    try:
        shown, problem = [_shown(store, each) for each in with_keys(store, keys.split(","))], ""
    except CurriculumError as refused:
        shown, problem = [], str(refused)
    if not shown and not problem:
        return None
    title = number(len(shown), "manifest")
    if len(shown) == 1:
        title = f"Manifest of {shown[0].key}"
    style = palette.properties() + html.asset("lists.css")
    return html.page(TEMPLATE, style=style, title=title, artefacts=shown, problem=problem)


def _shown(store: Store, artefact: Artefact) -> Shown:
    manifest = artefact.manifest
    num_bytes = sum(each.num_bytes for each in manifest.files)
    return Shown(
        path=artefact.path.relative_to(store.root).as_posix(),
        key=artefact.key[:KEY_DIGITS],
        created=manifest.created,
        size=f"{count(num_bytes)}B",
        facts=(
            ("stage", manifest.stage),
            *manifest.labels.items(),
            ("key", artefact.key),
            ("content", artefact.content),
            ("revision", str(manifest.revision)),
            *((f"made with {name}", version) for name, version in manifest.tools.items()),
        ),
        inputs=tuple((each.name, each.key[:KEY_DIGITS]) for each in manifest.inputs),
        files=tuple((each.name, integer(each.num_bytes)) for each in manifest.files),
        config=_json(manifest.config),
        report=_json(manifest.report),
    )


def _json(values: dict[str, JsonValue]) -> str:
    """Fields a line each, as far as they have any."""
    return json.dumps(values, indent=2, ensure_ascii=False) if values else ""
