"""`curriculum check`, `gc` and `merge`: sound and unused artefacts, and those of other workspaces."""

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
from curriculum.store.inside import require_shallow
from curriculum.train.checkpoint_files import require_whole
from curriculum.train.run_directory import CHECKPOINTS
from flows.cli.console import ACCENT, MUTED, err, out, warn
from flows.settings import trust
from schemas.corpus import ContextSettings
from schemas.errors import StoreError
from schemas.manifest import MANIFEST_NAME
from schemas.run_folders import STEP
from schemas.visible import one_line

MAX_LINES = 40
"""Number of shown lines of what would be removed."""


def check(home: Path, what: Sequence[str]) -> None:
    """Verify files against their manifests, and every document and packed row against its contract.

    Raises:
        SchemaError, PackError, StoreError: after all faults of a folder have been printed; and for what is
            neither a path nor a name or key of the workspace.
    """
    for folder in map(Path, what):
        if folder.is_dir() and Store.root_of(folder) is None:
            require_shallow(folder)
    paths = [path for name in what for path in folders_of(Store(home, dry=True), name)]
    for path in paths:
        artefacts = list(_artefacts(path))
        for checkpoint in _checkpoints(path):
            require_whole(checkpoint)
        for artefact in artefacts:
            Store.containing(artefact.path).verify(artefact)
            if artefact.manifest.stage == "documents":
                _check_documents(artefact)
        rows = [artefact for artefact in artefacts if artefact.manifest.stage == "rows"]
        # Held-out rows of one objective may be none; that their manifest says so is verified.
        full = [artefact.path for artefact in rows if artefact.shards()]
        for folder in full or ([] if artefacts else [path]):
            _check_rows(folder)
        for artefact in rows:
            _check_sides(artefact)
        out.print(
            f"{path}: {number(len(artefacts), 'artefact')} verified against manifests",
            soft_wrap=True,
        )


def _artefacts(path: Path) -> Iterator[Artefact]:
    files = sorted(path.rglob(MANIFEST_NAME)) if path.is_dir() else []
    for file in files:
        if "checkpoints" not in file.parts:
            yield Store.containing(file).load(file.parent)


def _checkpoints(path: Path) -> list[Path]:
    """Return the checkpoints at, below or around a path, of closed runs and of open ones."""
    above = [folder for folder in (path, *path.parents) if folder.parent.name == CHECKPOINTS]
    below = path.rglob(f"{CHECKPOINTS}/{STEP}*") if path.is_dir() else ()
    return sorted({*above[:1], *below})


def _check_documents(artefact: Artefact) -> None:
    documents, settings = 0, artefact.configured(ContextSettings)
    for document in documents_in(artefact.path):
        check_document(document, settings)
        documents += 1
    out.print(f"{artefact.path}: {number(documents, 'document')} keep the contract", soft_wrap=True)


def _check_sides(rows: Artefact) -> None:
    """Check that rows with a split hold nothing of the other side."""
    store = Store.containing(rows.path)
    own = {record.key for record in rows.manifest.inputs}
    selections = [artefact for artefact in inputs(store, rows, "selections") if artefact.key in own]
    documents = [artefact for artefact in inputs(store, rows, "documents") if artefact.key in own]
    tokenizers = inputs(store, rows, "tokenizers")
    there = {artefact.key for artefact in documents}
    listed = [made_of for made_of in rows.manifest.inputs if made_of.name.startswith("documents ")]
    if gone := [made_of for made_of in listed if made_of.key not in there]:
        warn(
            f"{rows.path}: the sides of its text aren't checked, since {gone[0].name} "
            f"({gone[0].key[:KEY_DIGITS]}), which it was made of, isn't there; a build makes it again"
        )
        return
    if not (rows.shards() and documents and selections and tokenizers):
        return
    token_bytes = load_tokenizer(tokenizers[0]).token_bytes
    pieces = check_sides(rows, documents, held_out_files(selections[0]), token_bytes)
    out.print(f"{rows.path}: {number(pieces, 'piece')} of text are on their side", soft_wrap=True)


def _check_rows(folder: Path) -> None:
    report = check_rows(folder)
    for fault in report.faults[1:]:
        err.print(Text(one_line(str(fault))))
    report.raise_first()
    if report.fallbacks:
        err.print(Text(one_line(f"inferred: {', '.join(report.fallbacks)}"), MUTED))
    out.print(
        f"{folder}: {number(report.rows, 'row')} of {number(report.files, 'file')} keep the contract "
        f"({count(report.valid_tokens)} valid tokens, {count(report.scored_tokens)} scored, "
        f"{report.repeated_tokens / max(1, report.scored_tokens):.1%} of those in repeats)",
        soft_wrap=True,
    )


def gc(home: Path, *, sure: bool) -> None:
    """Remove what nothing refers to, after a yes; what killed processes left is removed without one."""
    store = Store(home)
    for path in strange(store):
        warn(f"{path} is kept: gc removes only what builds and runs wrote")
    dead = garbage(store)
    if not dead:
        freed = collect_garbage(store, ())
        more = f"; {count(freed)}B freed that killed processes had left" if freed else ""
        out.print(f"Nothing to remove: everything is in use{more}.", soft_wrap=True)
        return
    size = sum(record.num_bytes for artefact in dead for record in artefact.manifest.files)
    for artefact in dead[:MAX_LINES]:
        out.print(Text(artefact.path.relative_to(store.root).as_posix(), MUTED))
    if sure or typer.confirm(f"Remove {number(len(dead), 'artefact')}, {count(size)}B?"):
        out.print(f"{count(collect_garbage(store, dead))}B freed")


def merge_into(home: Path, sources: Sequence[Path]) -> None:
    """Publish in a workspace what others made, and say how much of it was new.

    Raises:
        StoreError: for the first artefact that isn't what its manifest says; what came before it stays.
    """
    store = Store(home)
    for source in sources:
        if source == store.root:
            raise StoreError(str(source), cause="it is this workspace", cure="Name other ones")
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
            Text(f"{len(there):>4} there", MUTED),
        )
    if not taken:
        out.print("Nothing to merge: nothing is published there.")
