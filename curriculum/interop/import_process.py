"""Sandboxed process of an import: the only process that parses foreign files. It can write into one folder.

The command that imports asks the process for the key of the import. If no artefact with this key exists, the
command asks for the rows, which the process writes, and moves the written files into the artefact.
"""

import hashlib
import resource
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from curriculum.sandbox import Sandbox, code_paths
from curriculum.sandboxed_process import (
    SandboxedProcess,
    answer,
    enter_sandbox,
    next_request,
    stored_bytes,
    usual_memory,
    usual_seconds,
)
from schemas import errors
from schemas.errors import CurriculumError, SchemaError

if TYPE_CHECKING:
    from curriculum.interop.eos_boundaries import Boundaries
    from curriculum.interop.id_types import IdType
    from curriculum.interop.publish import Imported, ImportFormat, RowFacts
    from curriculum.store import Artefact, Recipe, StagingDirectory, Store

_ROWS, _SCRATCH = "rows", "tmp"
_MIN_FILE_BYTES, _RATIO = 16 << 30, 100
"""Limits on the size of a file of rows.

A file may have _MIN_FILE_BYTES, or _RATIO times the size of the imported files if that is larger.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignRows:
    """Path of foreign rows, and the options with which they are imported."""

    path: Path
    format: "ImportFormat"
    facts: "RowFacts"
    row_length: int | None = None
    boundaries: "Boundaries | None" = None
    """Token from which boundaries are inferred; None if they are stored."""
    id_type: "IdType | None" = None
    """Type of the ids given by --dtype; None if it is stored or to be inferred."""


def publish_foreign(
    store: "Store", rows: ForeignRows, tokenizer: "Artefact", *, unsandboxed: bool = False
) -> "Artefact":
    """Publish foreign rows as an artefact; `tokenizer` is the tokenizer with which they were encoded.

    Raises:
        SchemaError: if files can't be read as rows, a link leads out of the folder, or the reader exceeds
            its memory or time or crashes. Nothing is published then.
        StoreError: if the kernel can't confine the reading process.
    """
    from curriculum.interop.publish import recipe
    from curriculum.interop.received_files import received_files

    files = received_files(rows.path, parquet=rows.format == "parquet")
    size = stored_bytes(file for file in files if file.is_file())
    with _scratch(store, rows.path) as folder:
        sandbox = Sandbox(
            read=(str(tokenizer.path.absolute()), *code_paths()),
            foreign=tuple(map(str, files)),
            write=(str(folder),),
            file_bytes=max(_MIN_FILE_BYTES, _RATIO * size),
            memory=usual_memory(size),
            cpu_seconds=usual_seconds(size),
        )
        request = _request(rows, tokenizer, folder)
        with SandboxedProcess(__name__, sandbox, request, unsandboxed=unsandboxed) as process:
            made: Recipe = recipe(_key(rows, _answered(process, rows)), tokenizer)

            def fill(drafts: "Sequence[StagingDirectory]") -> None:
                (draft,) = drafts
                process.tell({"key": made.key})
                report = _answered(process, rows).get("report")
                draft.record_fields(report if isinstance(report, dict) else {})
                for path in sorted((folder / _ROWS).iterdir()):
                    path.replace(draft.path / path.name)

            return store.produce([made], fill)[0]


@contextmanager
def _scratch(store: "Store", path: Path) -> Iterator[Path]:
    """Create a folder that the process can write into, and remove it after the `with` block.

    If the command is killed, gc removes the folder.
    """
    from curriculum.store import inside

    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()
    with store.lock(name):
        folder = store.root / inside.DRAFTS / name
        inside.remove(folder)
        folder.mkdir(parents=True)
        try:
            yield folder.absolute()
        finally:
            inside.remove(folder)


def _request(rows: ForeignRows, tokenizer: "Artefact", folder: Path) -> dict[str, Any]:
    from curriculum.tokens.codec import TokenizerSettings
    from schemas.reports import TokenizerReport

    settings = tokenizer.configured(TokenizerSettings)
    report = tokenizer.reported(TokenizerReport)
    return {
        **asdict(rows),
        "path": str(rows.path.absolute()),
        "folder": str(folder),
        "tokenizer": str(tokenizer.path.absolute()),
        "roles": asdict(settings.roles),
        "no_engine": None if settings.encodes else report.engine_reason,
    }


def _answered(process: SandboxedProcess, rows: ForeignRows) -> dict[str, Any]:
    """Return the next answer of the process, parsed from JSON.

    Raises:
        CurriculumError: if the process reports an error or ends.
    """
    found = process.next_answer()
    if found is None:
        raise _unreadable(rows, process.end_reason())
    if "error" in found:
        _raise(found["error"], rows)
    return found


def _raise(error: Any, rows: ForeignRows) -> NoReturn:
    """Raise the error that the process reported as `error`."""
    try:
        kind, name, value, cause, cure = map(str, error)
    except (TypeError, ValueError):
        raise _unreadable(rows, "its reader says what nobody asked for") from None
    known = getattr(errors, kind, SchemaError)
    if not (isinstance(known, type) and issubclass(known, CurriculumError)):
        known = SchemaError
    raise known(name, value or None, cause=cause, cure=cure)


def _unreadable(rows: ForeignRows, reason: str) -> SchemaError:
    return SchemaError(
        str(rows.path),
        reason,
        cause="its reader, which runs in a sandbox, couldn't read it whole",
        cure="Write it anew with rows of one length and row groups of some MB, or leave it out",
    )


def _key(rows: ForeignRows, found: dict[str, Any]) -> Any:
    """Return the ImportKey in the answer `found`, after checking its labels."""
    from curriculum.interop.foreign_parquet import check_facts
    from curriculum.interop.publish import ImportKey

    try:
        key = TypeAdapter(ImportKey).validate_python(found.get("key"))
    except ValidationError:
        raise _unreadable(rows, "its reader says what nobody asked for") from None
    check_facts(key.facts)
    return key


def _serve() -> None:
    """Answer a request in the sandboxed process.

    Read the rows and answer with their key. If the command then asks for the rows, write them and answer with
    the report.
    """
    request = enter_sandbox()
    try:
        _import(request)
    except CurriculumError as refused:
        value = "" if refused.value is None else str(refused.value)
        parts = [type(refused).__name__, refused.name, value, refused.cause, refused.cure]
        answer({"error": parts})
    except MemoryError:
        limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
        parts = ["SchemaError", request["path"], f"more than {limit / 1e9:.1f} GB of memory"]
        parts += ["a few of its rows decode to more than an import may take"]
        answer(
            {"error": [*parts, "Write it anew with rows of one length and row groups of some MB"]}
        )
    except Exception as failed:
        _answer_failure(failed, request["path"])


def _answer_failure(failed: Exception, path: str) -> None:
    """Answer with an unexpected error, which is an error of the file system or a bug in the reader."""
    from curriculum.store import refusal

    named = refusal(failed, Path(path)) if isinstance(failed, OSError) else None
    said = named or SchemaError(
        path,
        f"{type(failed).__name__}: {failed}",
        cause="its reader doesn't know what to make of it",
        cure="Write it anew, or report it",
    )
    value = "" if said.value is None else str(said.value)
    answer({"error": [type(said).__name__, said.name, value, said.cause, said.cure]})


def _import(request: dict[str, Any]) -> None:
    from curriculum.interop.publish import ImportKey, write

    imported = _imported(request)
    answer({"key": asdict(ImportKey.of(imported))})
    if (asked := next_request()) is not None:
        folder = Path(request["folder"])
        tempfile.tempdir = str(folder / _SCRATCH)
        for name in (_ROWS, _SCRATCH):
            (folder / name).mkdir()
        answer({"report": write(imported, folder / _ROWS, asked["key"])})


def _imported(request: dict[str, Any]) -> "Imported":
    from curriculum.interop.foreign_parquet import parquet_rows
    from curriculum.interop.publish import RowFacts
    from curriculum.interop.tokens_in import token_rows
    from curriculum.tokens.codec import Roles, Tokenizer
    from curriculum.tokens.finished import decoding_tokenizer
    from curriculum.tokens.tokenizer_texts import TOKENIZER_NAME, TokenizerTexts

    texts = TokenizerTexts.read(Path(request["tokenizer"]) / TOKENIZER_NAME)
    roles = Roles(**request["roles"])
    reason: str | None = request["no_engine"]
    tokenizer = (
        Tokenizer.from_texts(texts, roles)
        if reason is None
        else decoding_tokenizer(texts, roles, reason)
    )
    path, facts = Path(request["path"]), RowFacts(**request["facts"])
    if request["format"] == "parquet":
        return parquet_rows(path, facts, tokenizer, request["boundaries"])
    return token_rows(
        path,
        request["format"],
        facts,
        tokenizer,
        request["row_length"],
        request["boundaries"],
        request["id_type"],
    )


if __name__ == "__main__":
    _serve()
