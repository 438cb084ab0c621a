"""Dataset cards: README.md by which Hugging Face's `datasets` loads rows and documents as they lie.

A workspace's names a config for each live data set, so that load_dataset("workspace", "documents-v3_simple")
reads its very files, offline. It is written anew when builds or imports change what is live.
"""

import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import JsonValue

from curriculum import parquet
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.recipe import KEY_DIGITS, digest
from schemas.errors import CurriculumError

CARD_NAME = "README.md"
MADE_HERE = "# Written by curriculum; remove this line, and it is left alone."
LIVE = ("build-*.txt", "import-*.txt")
SPLIT_OF_DOCUMENTS = "corpus"
"""Documents lie as they were read: what is kept, and on which side of the split, is said elsewhere."""
UNKNOWN = "not said"
_ODD = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """A data set by the name that it is loaded by: of each split its files, and how many rows there are."""

    name: str
    files: Mapping[str, tuple[str, ...]]
    rows: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Licence:
    """Documents of one repository under one licence."""

    repository: str
    licence: str
    documents: int


def write_card(store: Store) -> Path | None:
    """Write the card of a workspace; None where a README.md stands that isn't ours."""
    file = store.root / CARD_NAME
    if file.is_file() and MADE_HERE not in file.read_text(encoding="utf-8", errors="replace"):
        return None
    live, broken = _live(store)
    words = [
        "Packed rows and documents as they lie in this workspace. `documents-…` hold all that was read; "
        "rows hold what was kept.",
        *(f"Not listed, for it can't be read: `{path}`." for path in broken),
    ]
    text = card(
        title=store.root.absolute().name,
        words="\n\n".join(words),
        configs=configs(store.root, live),
        licences=licences(live),
    )
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        draft = file.with_name(f".{CARD_NAME}.{uuid.uuid4().hex}.draft")
        draft.write_text(text, encoding="utf-8")
        draft.replace(file)
    return file


def card(
    *,
    title: str,
    words: str,
    configs: Sequence[Config],
    licences: Sequence[Licence],
) -> str:
    """The text of a card."""
    listed: list[JsonValue] = [
        {
            "config_name": config.name,
            "data_files": [
                {"split": split, "path": [*files]} for split, files in config.files.items()
            ],
        }
        for config in configs
    ]
    about = {"license": "other", "language": ["code"], "tags": ["packed-rows"], "configs": listed}
    front = yaml.safe_dump(about, sort_keys=False, allow_unicode=True, width=10_000)
    name = configs[0].name if configs else "CONFIG"
    return "\n".join(
        [
            *("---", MADE_HERE, f"{front}---", "", f"# {_table_cell(title)}", "", words, ""),
            *("In this folder:", "", "```python", "from datasets import load_dataset", ""),
            *(f'load_dataset(".", "{name}")', "```", ""),
            *_table(("config", "split", "rows"), _config_lines(configs)),
            *("", "## Licences", ""),
            *_table(("licence", "repository", "documents"), _licence_lines(licences)),
            "",
        ]
    )


def configs(root: Path, artefacts: Iterable[Artefact]) -> list[Config]:
    """Return a config for each family, objective, variant and row length of rows, or family of documents.

    Data sets that would have one name, such as those of two tokenizers, bear their first digits of
    what tells them apart.
    """
    groups: dict[tuple[str, str], dict[str, list[Artefact]]] = {}
    for each in artefacts:
        if each.manifest.stage in ("rows", "documents") and each.files():
            splits = groups.setdefault((_name(each), _kin(each)), {})
            splits.setdefault(_split(each), []).append(each)
    named = Counter(name for name, _ in groups)
    return [
        _config(root, name if named[name] == 1 else f"{name}-{kin[:KEY_DIGITS]}", splits)
        for (name, kin), splits in sorted(groups.items(), key=_rows_first)
    ]


def licences(artefacts: Iterable[Artefact]) -> list[Licence]:
    """Count the documents of each repository by licence."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in artefacts:
        if each.manifest.stage == "documents":
            repository = each.manifest.labels.get("repository", UNKNOWN)
            for file in each.files():
                for licence, documents in _licences_of(file):
                    counts[licence, repository] += documents
    return [
        Licence(repository=repository, licence=licence, documents=documents)
        for (licence, repository), documents in sorted(counts.items())
    ]


def _licences_of(file: Path) -> Iterator[tuple[str, int]]:
    """Yield licences by row group; where statistics say that all are one, the column isn't read."""
    content = parquet.File(file)
    column = content.schema_arrow.get_field_index("licence")
    if column < 0:
        yield UNKNOWN, content.metadata.num_rows
        return
    at = next(
        i for i in range(content.metadata.num_columns)
        if content.metadata.schema.column(i).path == "licence"
    )  # fmt: skip
    for group in range(content.num_row_groups):
        about = content.metadata.row_group(group)
        known = about.column(at).statistics
        if (
            known is not None
            and known.has_min_max
            and known.min == known.max
            and not known.null_count
        ):
            yield str(known.min), about.num_rows
            continue
        counted: Any = content.read_row_group(group, columns=["licence"])["licence"].value_counts()
        for line in counted.to_pylist():
            yield line["values"] or UNKNOWN, line["counts"]


def _live(store: Store) -> tuple[list[Artefact], list[str]]:
    """Return the artefacts that builds and imports left last, and the paths of those that can't be read."""
    files = [file for glob in LIVE for file in sorted((store.root / "current").glob(glob))]
    lines = dict.fromkeys(line for file in files for line in read_mark(file))
    live: list[Artefact] = []
    broken: list[str] = []
    for line in lines:
        if line.startswith(("rows/", "documents/")):
            try:
                live.append(store.load(store.root / line))
            except CurriculumError:
                broken.append(line)
    return live, broken


def _rows_first(group: tuple[tuple[str, str], object]) -> tuple[bool, str, str]:
    (name, kin), _ = group
    return not name.startswith("rows"), name, kin


def _config(root: Path, name: str, splits: Mapping[str, Sequence[Artefact]]) -> Config:
    files = {
        split: tuple(
            file.relative_to(root).as_posix() for each in artefacts for file in each.files()
        )
        for split, artefacts in sorted(splits.items(), key=lambda pair: _rank(pair[0]))
    }
    rows = {
        split: sum(parquet.read_metadata(root / file).num_rows for file in listed)
        for split, listed in files.items()
    }
    return Config(name=name, files=files, rows=rows)


def _rank(split: str) -> tuple[int, str]:
    return ["train", "val", "anchor"].index(split) if split in ("train", "val") else 2, split


def _name(artefact: Artefact) -> str:
    labels = artefact.manifest.labels
    skipped = {"split", "repository"}
    variant = {"variant"} if labels.get("variant") == "0" else set()
    words = [value for label, value in labels.items() if label not in skipped | variant]
    return _ODD.sub("_", "-".join([artefact.manifest.stage, *words]))


def _kin(artefact: Artefact) -> str:
    """Return a key that data sets share if they are one but for the split: config and inputs."""
    manifest = artefact.manifest
    if manifest.stage == "documents":
        return ""
    config = {
        name: value
        for name, value in manifest.config.items()
        if name not in ("split", "anchor_bytes", "files")
    }
    made_of = sorted(each.content for each in manifest.inputs)
    return digest({"config": config, "inputs": [*made_of]})


def _split(artefact: Artefact) -> str:
    return artefact.manifest.labels.get("split", SPLIT_OF_DOCUMENTS)


def _config_lines(configs: Sequence[Config]) -> Iterator[tuple[str, ...]]:
    for config in configs:
        for split, rows in config.rows.items():
            yield f"`{config.name}`", split, f"{rows:,}"


def _licence_lines(licences: Sequence[Licence]) -> Iterator[tuple[str, ...]]:
    for each in licences:
        yield _table_cell(each.licence), _table_cell(each.repository), f"{each.documents:,}"


def _table(names: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    rows = [f"| {' | '.join(line)} |" for line in lines]
    if not rows:
        return ["None yet."]
    return [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}", *rows]


def _table_cell(text: str) -> str:
    """Text of others as a cell: on one line, and nothing in it is markup."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return re.sub(r"([\\`*_{}\[\]<>()#|!&~])", r"\\\1", plain)
