"""Reasons why an artefact is made again: differences from the last version in the same place, as a tree."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from curriculum.store.artefact import PLANNED, Recipe
from curriculum.store.store import Store
from schemas.label_folders import label_folder
from schemas.manifest import InputRecord, Manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedIngredient:
    """One ingredient that changed; None where it wasn't there."""

    name: str
    before: JsonValue
    now: JsonValue
    deleted: str = ""
    """Folder of an input that is still wanted, and isn't in the workspace any more; "" for any other."""

    @property
    def made_anew(self) -> bool:
        """Return True if the input was made anew of the same: its key stayed, its content didn't."""
        keys = [str(each).partition(" ")[0] for each in (self.before, self.now)]
        return self.name.startswith("input ") and keys[0] == keys[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Differences, and for each input that differs, its own differences."""

    folder: str
    first: bool
    """True if there is no earlier version to compare with."""
    differences: tuple[ChangedIngredient, ...]
    because: tuple["Explanation", ...]

    @property
    def roots(self) -> "Iterator[tuple[str, ChangedIngredient | None]]":
        """The folders on which it begins, each with what differs there; None for a first version."""
        if self.first:
            yield self.folder, None
        for difference in self.differences:
            if not difference.name.startswith("input ") or difference.made_anew or not self.because:
                yield self.folder, difference
        for cause in self.because:
            yield from cause.roots

    def lines(self, depth: int = 0) -> Iterator[str]:
        """The tree as text, two spaces a level."""
        indent = "  " * depth
        yield f"{indent}{self.folder}{' (first version)' if self.first else ''}"
        for difference in self.differences:
            yield f"{indent}  {difference.name}: {difference.before} -> {difference.now}"
        for cause in self.because:
            yield from cause.lines(depth + 1)


def explain(store: Store, recipe: Recipe) -> Explanation:
    """Compare a recipe with the newest other version in its folder, down to the inputs that differ.

    What was made of another corpus is no version: rows of several corpora lie in one folder. Mixtures and
    runs are their specialist's, whatever its corpus.
    """
    return explain_all(store, [recipe])[0]


def explain_all(store: Store, recipes: Sequence[Recipe]) -> list[Explanation]:
    """Compare each recipe so; the store is read once for all of them."""
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
"""A folder, and the corpora that a version in it is made of."""


class _Corpora:
    """Corpora by key that artefacts are made of: their own label, else those of their inputs."""

    def __init__(self, manifests: Mapping[str, Manifest]) -> None:
        self.manifests = manifests
        self.known: dict[str, frozenset[str]] = {}

    def place(self, manifest: Manifest) -> _Place:
        """The versions that one is compared with have the same place."""
        is_specialists = "specialist" in manifest.labels
        return _folder(manifest), frozenset() if is_specialists else self._of(manifest)

    def _of(self, manifest: Manifest) -> frozenset[str]:
        if manifest.key not in self.known:
            own = manifest.labels.get("corpus")
            inputs = (self.manifests.get(each.key) for each in manifest.inputs)
            made_of = [self._of(each) for each in inputs if own is None and each is not None]
            self.known[manifest.key] = frozenset({own} if own else ()).union(*made_of)
        return self.known[manifest.key]


def _compare(
    now: Manifest,
    manifests: Mapping[str, Manifest],
    places: Mapping[_Place, Sequence[Manifest]],
    corpora: _Corpora,
) -> Explanation:
    folder = _folder(now)
    others = [each for each in places.get(corpora.place(now), ()) if each.key != now.key]
    before = max(others, key=lambda each: each.created, default=None)
    if before is None:
        return Explanation(folder=folder, first=True, differences=(), because=())
    wanted = {f"input {each.name}": each for each in now.inputs}
    changed = tuple(
        replace(each, deleted=_folder(manifests[wanted[each.name].key]))
        if each.made_anew
        and wanted[each.name].content == PLANNED
        and wanted[each.name].key in manifests
        else each
        for each in _differences(before, now)
    )
    names = {difference.name for difference in changed}
    because = tuple(
        _compare(manifests[each.key], manifests, places, corpora)
        for each in now.inputs
        if f"input {each.name}" in names and each.key in manifests and not _again(each, before)
    )
    return Explanation(folder=folder, first=False, differences=changed, because=because)


def _again(now: InputRecord, before: Manifest) -> bool:
    """Return True if an input is the same as before, made anew: nothing that it was made of tells why."""
    return any((each.name, each.key) == (now.name, now.key) for each in before.inputs)


def _differences(before: Manifest, now: Manifest) -> Iterator[ChangedIngredient]:
    old, new = _ingredients(before), _ingredients(now)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield ChangedIngredient(name=name, before=old.get(name), now=new.get(name))


def _ingredients(manifest: Manifest) -> dict[str, JsonValue]:
    return {
        "revision": manifest.revision,
        **dict(_flat("", dict(manifest.config))),
        **{f"input {each.name}": _version(each) for each in manifest.inputs},
        **{f"tool {name}": version for name, version in manifest.tools.items()},
    }


def _version(record: InputRecord) -> str:
    return f"{record.key[:12]} {record.content[:12]}"


def _flat(prefix: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    inner: Iterable[tuple[object, JsonValue]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list) and all(isinstance(each, dict) for each in value):
        inner = enumerate(value)
    if value and inner:
        for name, each in inner:
            yield from _flat(f"{prefix}.{name}" if prefix else str(name), each)
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
            InputRecord(name=each.name, key=each.key, content=each.content)
            for each in recipe.inputs
        ),
        tools=dict(recipe.tools),
        files=(),
        report={},
        created="",
    )
