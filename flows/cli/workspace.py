"""`curriculum check`, `gc` and `merge`: verify, remove and copy the artefacts of a workspace."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer
from rich.text import Text

from curriculum.corpus.decisions import held_out_files
from curriculum.families.document_check import check_document
from curriculum.families.document_writer import documents_in
from curriculum.inspection.formats import count, number
from curriculum.inspection.lineage import inputs
from curriculum.packing.row_check import check as check_rows
from curriculum.pipeline.references import folders_of
from curriculum.stages.held_out_text import check_sides
from curriculum.stages.merge import merge
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store, collect_garbage, garbage, strange
from curriculum.store.artefact import KEY_DIGITS
from curriculum.store.inside import require_plain
from curriculum.train.checkpoint_files import require_whole
from curriculum.train.run_directory import CHECKPOINTS
from flows.cli.console import ACCENT, MUTED, err, out, warn
from flows.settings import trust
from schemas.corpus import ContextSettings
from schemas.errors import StoreError
from schemas.manifest import MANIFEST_NAME
from schemas.regular_files import kind_at
from schemas.run_folders import STEP
from schemas.visible import one_line

MAX_LINES = 40
"""Maximum number of listed artefacts to remove."""


def check(home: Path, what: Sequence[str]) -> None:
    """Verify files against their manifests, and all documents and packed rows against their contracts.

    Raises:
        SchemaError, PackError, StoreError: after all faults of a folder were printed, or if a name is neither
            a path nor a name or key in the workspace.
    """
    paths = [path for name in what for path in folders_of(Store(home, dry=True), name)]
    for path in paths:
        if Store.root_of(path / MANIFEST_NAME) is None:
            _require_plain_outside(path)
    for path in paths:
        artefacts = list(_artefacts(path))
        for checkpoint in _checkpoints(path):
            require_whole(checkpoint)
        for artefact in artefacts:
            Store.containing(artefact.path).verify(artefact)
            if artefact.manifest.stage == "documents":
                _check_documents(artefact)
        rows = [artefact for artefact in artefacts if artefact.manifest.stage == "rows"]
        # An objective may have no held-out rows; the manifest must then say so.
        full = [artefact.path for artefact in rows if artefact.shards()]
        for folder in full or ([] if artefacts else [path]):
            _check_rows(folder)
        for artefact in rows:
            _check_sides(artefact)
        out.print(
            f"{path}: {number(len(artefacts), 'artefact')} verified against manifests",
            soft_wrap=True,
        )


def _require_plain_outside(path: Path) -> None:
    """Raise unless a path outside of workspaces is a regular file, or a folder of plain files and folders."""
    if path.is_dir():
        require_plain(path)
    elif (kind := kind_at(path)) != "a file":
        raise StoreError(str(path), kind, cause="it is no regular file", cure="Name another path")


def _artefacts(path: Path) -> Iterator[Artefact]:
    files = sorted(path.rglob(MANIFEST_NAME)) if path.is_dir() else []
    for file in files:
        if "checkpoints" not in file.parts:
            yield Store.containing(file).load(file.parent)


def _checkpoints(path: Path) -> list[Path]:
    """Return the checkpoint at a path or above it, and all below it, of finished and unfinished runs."""
    above = [folder for folder in (path, *path.parents) if folder.parent.name == CHECKPOINTS]
    below = path.rglob(f"{CHECKPOINTS}/{STEP}*") if path.is_dir() else ()
    return sorted({*above[:1], *below})


def _check_documents(artefact: Artefact) -> None:
    documents, settings = 0, artefact.configured(ContextSettings)
    for document in documents_in(artefact.path):
        check_document(document, settings)
        documents += 1
    out.print(
        f"{artefact.path}: contract verified for {number(documents, 'document')}", soft_wrap=True
    )


def _check_sides(rows: Artefact) -> None:
    """Check that training rows contain no held-out documents, and validation rows no training documents."""
    store = Store.containing(rows.path)
    own = {record.key for record in rows.manifest.inputs}
    selections = [artefact for artefact in inputs(store, rows, "selections") if artefact.key in own]
    documents = [artefact for artefact in inputs(store, rows, "documents") if artefact.key in own]
    tokenizers = inputs(store, rows, "tokenizers")
    there = {artefact.key for artefact in documents}
    listed = [made_of for made_of in rows.manifest.inputs if made_of.name.startswith("documents ")]
    if gone := [made_of for made_of in listed if made_of.key not in there]:
        warn(
            f"{rows.path}: the split of its text isn't checked, since its input {gone[0].name} "
            f"({gone[0].key[:KEY_DIGITS]}) is missing; a build creates it again"
        )
        return
    if not (rows.shards() and documents and selections and tokenizers):
        return
    token_bytes = load_tokenizer(tokenizers[0]).token_bytes
    pieces = check_sides(rows, documents, held_out_files(selections[0]), token_bytes)
    out.print(f"{rows.path}: split verified for {number(pieces, 'piece')} of text", soft_wrap=True)


def _check_rows(folder: Path) -> None:
    report = check_rows(folder)
    for fault in report.faults[1:]:
        err.print(Text(one_line(str(fault))))
    report.raise_first()
    if report.fallbacks:
        err.print(Text(one_line(f"inferred: {', '.join(report.fallbacks)}"), MUTED))
    out.print(
        f"{folder}: contract verified for {number(report.rows, 'row')} in "
        f"{number(report.files, 'file')} ({count(report.valid_tokens)} valid tokens, "
        f"{count(report.scored_tokens)} scored, "
        f"{report.repeated_tokens / max(1, report.scored_tokens):.1%} of the scored tokens in "
        "repeats)",
        soft_wrap=True,
    )


def gc(home: Path, *, sure: bool) -> None:
    """Remove artefacts that nothing refers to, after the user has confirmed.

    Files that killed processes left behind are removed without asking. With `sure`, nothing is asked.
    """
    store = Store(home)
    for path in strange(store):
        warn(f"{path} is kept: gc removes only what builds and runs wrote")
    dead = garbage(store)
    if not dead:
        freed = collect_garbage(store, ())
        more = f"; {count(freed)}B of killed processes freed" if freed else ""
        out.print(f"Nothing to remove: all artefacts are in use{more}.", soft_wrap=True)
        return
    size = sum(record.num_bytes for artefact in dead for record in artefact.manifest.files)
    for artefact in dead[:MAX_LINES]:
        out.print(Text(artefact.path.relative_to(store.root).as_posix(), MUTED))
    if sure or typer.confirm(f"Remove {number(len(dead), 'artefact')}, {count(size)}B?"):
        out.print(f"{count(collect_garbage(store, dead))}B freed")


def merge_into(home: Path, sources: Sequence[Path]) -> None:
    """Copy the artefacts of other workspaces into the workspace `home`, and print how many are new.

    Raises:
        StoreError: for the first artefact that contradicts its manifest; artefacts copied before it stay.
    """
    store = Store(home)
    for source in sources:
        if source == store.root:
            raise StoreError(
                str(source),
                cause="the source is this workspace itself",
                cure="Give other workspaces",
            )
    with store.leased():
        taken = [
            artefact
            for source in sources
            for artefact in merge(store, source, own=trust.is_trusted(source))
        ]
    for stage in dict.fromkeys(artefact.manifest.stage for artefact in taken):
        ours = [artefact for artefact in taken if artefact.manifest.stage == stage]
        fresh = {artefact.path for artefact in ours if artefact.made}
        there = {artefact.path for artefact in ours} - fresh
        out.print(
            Text(f"{stage:<12}", "bold"),
            Text(f"{len(fresh):>4} merged", ACCENT),
            Text(f"{len(there):>4} already there", MUTED),
        )
    if not taken:
        out.print("Nothing to merge: the other workspaces have no published artefacts.")
