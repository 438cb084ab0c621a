"""Reasons why an artefact is rebuilt: differences from the previous version, as a tree."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from curriculum.store.artefact import PLANNED, Recipe
from curriculum.store.store import Store
from schemas.label_folders import label_folder
from schemas.manifest import InputRecord, Manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedIngredient:
    """An ingredient that differs from the previous version.

    `before` is None if only the new version has the ingredient, and `now` if only the previous one has.
    """

    name: str
    before: JsonValue
    now: JsonValue
    deleted: str = ""
    """Folder of an input that is required but missing in the workspace; "" for any other difference."""

    @property
    def made_anew(self) -> bool:
        """True if the input was rebuilt: its key is the same, but its content is different."""
        keys = [str(version).partition(" ")[0] for version in (self.before, self.now)]
        return self.name.startswith("input ") and keys[0] == keys[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Differences of an artefact from its previous version, and the explanation of each changed input."""

    folder: str
    first: bool
    """True if there is no previous version."""
    differences: tuple[ChangedIngredient, ...]
    because: tuple["Explanation", ...]

    @property
    def roots(self) -> "Iterator[tuple[str, ChangedIngredient | None]]":
        """Folders in which a rebuild originates, each with the difference that causes it.

        Differences that only follow from a changed input are left out. The difference is None for a folder
        without a previous version.
        """
        if self.first:
            yield self.folder, None
        for difference in self.differences:
            if not difference.name.startswith("input ") or difference.made_anew or not self.because:
                yield self.folder, difference
        for cause in self.because:
            yield from cause.roots

    def lines(self, depth: int = 0) -> Iterator[str]:
        """Yield the lines of the tree, indented by two spaces per level."""
        indent = "  " * depth
        yield f"{indent}{self.folder}{' (first version)' if self.first else ''}"
        for difference in self.differences:
            yield f"{indent}  {difference.name}: {difference.before} -> {difference.now}"
        for cause in self.because:
            yield from cause.lines(depth + 1)


def explain(store: Store, recipe: Recipe) -> Explanation:
    """Compare a recipe with the previous version of the artefact, and do the same for inputs that differ.

    The previous version is the newest other version in the same folder that was made of the same corpora,
    because rows of several corpora share a folder. Mixtures and runs are compared with versions of the same
    specialist, whatever their corpora.
    """
    return explain_all(store, [recipe])[0]


def explain_all(store: Store, recipes: Sequence[Recipe]) -> list[Explanation]:
    """Compare several recipes as `explain` does, but read the store only once."""
    manifests = {artefact.key: artefact.manifest for artefact in store.artefacts()}
    published = [*manifests.values()]
    for step in store.steps:
        if step.recipe.key not in manifests:
            manifests[step.recipe.key] = _as_manifest(step.recipe)
    corpora = _Corpora(manifests)
    places: dict[_Place, list[Manifest]] = {}
    for manifest in published:
        places.setdefault(corpora.place(manifest), []).append(manifest)
    return [_compare(_as_manifest(recipe), manifests, places, corpora) for recipe in recipes]


_Place = tuple[str, frozenset[str]]
"""A folder, and the corpora of a version in it. Only versions with equal places are compared."""


class _Corpora:
    """The corpora that artefacts are made of: the label `corpus` of an artefact, or those of its inputs."""

    def __init__(self, manifests: Mapping[str, Manifest]) -> None:
        self.manifests = manifests
        self.known: dict[str, frozenset[str]] = {}

    def place(self, manifest: Manifest) -> _Place:
        """Return the place of the artefact that `manifest` describes."""
        is_specialists = "specialist" in manifest.labels
        return _folder(manifest), frozenset() if is_specialists else self._of(manifest)

    def _of(self, manifest: Manifest) -> frozenset[str]:
        if manifest.key not in self.known:
            own = manifest.labels.get("corpus")
            inputs = (self.manifests.get(record.key) for record in manifest.inputs)
            made_of = [self._of(known) for known in inputs if own is None and known is not None]
            self.known[manifest.key] = frozenset({own} if own else ()).union(*made_of)
        return self.known[manifest.key]


def _compare(
    now: Manifest,
    manifests: Mapping[str, Manifest],
    places: Mapping[_Place, Sequence[Manifest]],
    corpora: _Corpora,
) -> Explanation:
    folder = _folder(now)
    others = [other for other in places.get(corpora.place(now), ()) if other.key != now.key]
    before = max(others, key=lambda other: other.created, default=None)
    if before is None:
        return Explanation(folder=folder, first=True, differences=(), because=())
    wanted = {f"input {record.name}": record for record in now.inputs}
    changed = tuple(
        replace(difference, deleted=_folder(manifests[wanted[difference.name].key]))
        if difference.made_anew
        and wanted[difference.name].content == PLANNED
        and wanted[difference.name].key in manifests
        else difference
        for difference in _differences(before, now)
    )
    names = {difference.name for difference in changed}
    because = tuple(
        _compare(manifests[record.key], manifests, places, corpora)
        for record in now.inputs
        if f"input {record.name}" in names
        and record.key in manifests
        and not _again(record, before)
    )
    return Explanation(folder=folder, first=False, differences=changed, because=because)


def _again(now: InputRecord, before: Manifest) -> bool:
    """Return True if an input was rebuilt with the same key; then the input's own inputs explain nothing."""
    return any((record.name, record.key) == (now.name, now.key) for record in before.inputs)


def _differences(before: Manifest, now: Manifest) -> Iterator[ChangedIngredient]:
    old, new = _ingredients(before), _ingredients(now)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield ChangedIngredient(name=name, before=old.get(name), now=new.get(name))


def _ingredients(manifest: Manifest) -> dict[str, JsonValue]:
    return {
        "revision": manifest.revision,
        **dict(_flat("", dict(manifest.config))),
        **{f"input {record.name}": _version(record) for record in manifest.inputs},
        **{f"tool {name}": version for name, version in manifest.tools.items()},
    }


def _version(record: InputRecord) -> str:
    return f"{record.key[:12]} {record.content[:12]}"


def _flat(prefix: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    inner: Iterable[tuple[object, JsonValue]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
        inner = enumerate(value)
    if value and inner:
        for name, item in inner:
            yield from _flat(f"{prefix}.{name}" if prefix else str(name), item)
    else:
        yield prefix, value


def _folder(manifest: Manifest) -> str:
    return "/".join((manifest.stage, *(label_folder(*label) for label in manifest.labels.items())))


def _as_manifest(recipe: Recipe) -> Manifest:
    return Manifest(
        stage=recipe.stage,
        labels=dict(recipe.labels),
        key=recipe.key,
        content="",
        revision=recipe.revision,
        config=dict(recipe.config),
        inputs=tuple(
            InputRecord(name=item.name, key=item.key, content=item.content)
            for item in recipe.inputs
        ),
        tools=dict(recipe.tools),
        files=(),
        report={},
        created="",
    )
