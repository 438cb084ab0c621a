"""Dataset cards for Hugging Face `datasets`, and the card of a workspace.

The card of a workspace describes each data set in use as a config. So load_dataset("workspace",
"documents-v3_simple") reads the workspace's files directly, offline. The card is written again whenever a
build or an import changes which data sets are in use.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import yaml
from pydantic import JsonValue

from curriculum import parquet
from curriculum.interop.attribution import UNKNOWN
from curriculum.interop.markdown_cells import markdown_cell
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.artefact import KEY_DIGITS, digest
from curriculum.whole_files import write_whole
from schemas.errors import CurriculumError
from schemas.packed_row import COMPARED_INPUT
from schemas.spdx import LicenceKind, licence_kind

CARD_NAME = "README.md"
MADE_HERE = "# Written by curriculum; remove this line, and it is left alone."
LIVE = ("build+*.txt", "import-*.txt")
SPLIT_OF_DOCUMENTS = "corpus"
"""Name of the split for documents, which are stored before selection assigns them to train and val."""
SPLITS = {"train": 0, "val": 1}
"""Splits that are listed before all others, with their positions."""
_ODD = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """A data set under the name that load_dataset takes, with its files and number of rows by split."""

    name: str
    files: Mapping[str, tuple[str, ...]]
    rows: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Licence:
    """Number of documents that one repository has under one licence."""

    repository: str
    licence: str
    documents: int

    @property
    def kind(self) -> LicenceKind:
        """Kind of the licence, such as copyleft, by its conditions for redistribution."""
        return licence_kind(None if self.licence == UNKNOWN else self.licence)


def write_card(store: Store) -> Path | None:
    """Write README.md, the card of a workspace.

    A README.md that wasn't written by this function is left unchanged, and None is returned.
    """
    file = store.root / CARD_NAME
    if file.is_file() and MADE_HERE not in file.read_text(encoding="utf-8", errors="replace"):
        return None
    live, broken = _live(store)
    words = [
        "Packed rows and documents as they lie in this workspace. `documents-…` hold all that was read; "
        "rows hold what was kept.",
        "Trainers of transformers and TRL need columns that these rows don't have, and would train on "
        "padding and across documents without. `curriculum export SPECIALIST/PHASE --format huggingface "
        "--to FOLDER` writes them.",
        *(f"Not listed, for it can't be read: `{path}`." for path in broken),
    ]
    text = card(
        title=store.root.absolute().name,
        words="\n\n".join(words),
        configs=configs(store.root, live),
        licences=licences(live),
    )
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        write_whole(file, text)
    return file


def card(
    *,
    title: str,
    words: str,
    configs: Sequence[Config],
    licences: Sequence[Licence],
    use: str = "",
) -> str:
    """Return the text of a dataset card; `use` is the card's section on training."""
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
            *("---", MADE_HERE, f"{front}---", "", f"# {markdown_cell(title)}", "", words, ""),
            *("In this folder:", "", "```python", "from pathlib import Path", ""),
            *("from datasets import load_dataset", ""),
            *(f'load_dataset(str(Path.cwd()), "{name}")', "```", ""),
            *_table(
                ("config", "split", "rows"),
                (
                    (f"`{config.name}`", split, f"{rows:,}")
                    for config in configs
                    for split, rows in config.rows.items()
                ),
            ),
            *(("", use) if use else ()),
            *("", "## Licences", ""),
            *_table(
                ("licence", "kind", "repository", "documents"),
                (
                    (
                        markdown_cell(licence.licence),
                        licence.kind,
                        markdown_cell(licence.repository),
                        f"{licence.documents:,}",
                    )
                    for licence in licences
                ),
            ),
            "",
        ]
    )


def configs(root: Path, artefacts: Iterable[Artefact]) -> list[Config]:
    """Return the configs that describe `artefacts`.

    Rows have one config per family, objective, variant and row length. Documents have one config per family.
    If several data sets would get the same name, for example with two tokenizers, each name ends with the
    first digits of a key.
    """
    groups: dict[tuple[str, str], dict[str, list[Artefact]]] = {}
    for artefact in artefacts:
        if artefact.manifest.stage in ("rows", "documents") and artefact.shards():
            splits = groups.setdefault((_name(artefact), _kin(artefact)), {})
            split = artefact.manifest.labels.get("split", SPLIT_OF_DOCUMENTS)
            splits.setdefault(split, []).append(artefact)
    named = Counter(name for name, _ in groups)
    found: list[Config] = []
    for name, kin in sorted(groups, key=lambda group: (not group[0].startswith("rows"), *group)):
        splits = groups[name, kin]
        files = {
            split: [file for tree in splits[split] for file in tree.shards()]
            for split in sorted(splits, key=lambda split: (SPLITS.get(split, len(SPLITS)), split))
        }
        found.append(
            Config(
                name=name if named[name] == 1 else f"{name}-{kin[:KEY_DIGITS]}",
                files={
                    split: tuple(file.relative_to(root).as_posix() for file in listed)
                    for split, listed in files.items()
                },
                rows={
                    split: sum(parquet.read_metadata(file).num_rows for file in listed)
                    for split, listed in files.items()
                },
            )
        )
    return found


def licences(artefacts: Iterable[Artefact], only: Any = None) -> list[Licence]:
    """Count the documents of each repository by licence; `only` restricts the count to these document ids."""
    counts: Counter[tuple[str, str]] = Counter()
    for artefact in artefacts:
        if artefact.manifest.stage == "documents":
            repository = artefact.manifest.labels.get("repository", UNKNOWN)
            for file in artefact.shards():
                for licence, documents in _licences_of(file, only):
                    counts[licence, repository] += documents
    return [
        Licence(repository=repository, licence=licence, documents=documents)
        for (licence, repository), documents in sorted(counts.items())
    ]


def _licences_of(file: Path, only: Any) -> Iterator[tuple[str, int]]:
    """Yield each licence with a number of documents.

    If a row group has a single licence according to its statistics, the row group isn't read.
    """
    content = parquet.File(file)
    column = content.schema_arrow.get_field_index("licence")
    if column < 0:
        yield UNKNOWN, content.metadata.num_rows
        return
    if only is not None:
        read: Any = parquet.read_table(file, columns=["document_id", "licence"])
        yield from _counted(read.filter(pc.is_in(read["document_id"], only))["licence"])
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
        yield from _counted(content.read_row_group(group, columns=["licence"])["licence"])


def _counted(column: Any) -> Iterator[tuple[str, int]]:
    for line in column.value_counts().to_pylist():
        yield line["values"] or UNKNOWN, line["counts"]


def _live(store: Store) -> tuple[list[Artefact], list[str]]:
    """Return the artefacts that the latest builds and imports list, and the paths of unreadable ones."""
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


def _name(artefact: Artefact) -> str:
    labels = artefact.manifest.labels
    skipped = {"split", "repository"}
    variant = {"variant"} if labels.get("variant") == "0" else set()
    words = [value for label, value in labels.items() if label not in skipped | variant]
    return _ODD.sub("_", "-".join([artefact.manifest.stage, *words]))


def _kin(artefact: Artefact) -> str:
    """Return a key that is equal for data sets that differ only in their split.

    The key ignores which tokens are scored, because validation rows are scored differently from training
    rows.
    """
    manifest = artefact.manifest
    if manifest.stage == "documents":
        return ""
    config = {
        name: value
        for name, value in manifest.config.items()
        if name not in ("split", "anchor_bytes", "files", "score", "score_revision", "trained_text")
    }
    made_of = sorted(
        record.content for record in manifest.inputs if not record.name.startswith(COMPARED_INPUT)
    )
    return digest({"config": config, "inputs": [*made_of]})


def _table(names: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    rows = [f"| {' | '.join(line)} |" for line in lines]
    if not rows:
        return ["None yet."]
    return [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}", *rows]
