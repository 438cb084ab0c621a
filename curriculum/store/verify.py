"""Files compared with what was published: whole by sha256, or a Parquet file by its footer and its pages."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from curriculum import parquet
from schemas.cures import LOST, cure_of, is_lost
from schemas.errors import StoreError
from schemas.manifest import FileRecord
from schemas.regular_files import is_plain

_MAGIC, _TAIL_BYTES = b"PAR1", 8
"""A Parquet file ends with the length of its footer and four letters."""
_MARKED = "# sha256 "


def sha256_of(file: Path) -> str:
    """The sha256 of a file's bytes; 1.5 GB a second on one core."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def footer_of(file: Path) -> str | None:
    """The sha256 of a Parquet file's footer, which says where its pages lie; None for other files."""
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        if size < _TAIL_BYTES:
            return None
        opened.seek(size - _TAIL_BYTES)
        tail = opened.read()
        length = int.from_bytes(tail[:4], "little") + _TAIL_BYTES
        if tail[4:] != _MAGIC or length > size:
            return None
        opened.seek(size - length)
        return hashlib.sha256(opened.read()).hexdigest()


def verify_file(folder: Path, record: FileRecord) -> None:
    """Read a file whole and compare its sha256 with the recorded one.

    A file of a run that is marked as lost passes.

    Raises:
        StoreError: naming the file, where it differs or is missing.
    """
    file = folder / record.name
    found = sha256_of(file) if file.is_file() else "missing"
    if found != record.sha256 and not (is_lost(file) and not record.in_content):
        raise damaged(file, f"its bytes aren't those published: {_differ(found, record.sha256)}")


def verify_footers(folder: Path, records: Iterable[FileRecord]) -> None:
    """Compare the footers of Parquet files with the recorded ones; their readers check the pages.

    Raises:
        StoreError: naming the first file that differs or is missing.
    """
    for record in records:
        file = folder / record.name
        if record.footer is None:
            continue
        found = footer_of(file) if file.is_file() else "missing"
        if found != record.footer:
            words = _differ(found or "none", record.footer)
            raise damaged(file, f"its footer isn't the published one: {words}")


@contextlib.contextmanager
def reading_pages(file: Path) -> Iterator[None]:
    """Read pages of a Parquet file that is opened with checksums.

    Raises:
        StoreError: naming the file, where its content can't be decoded or a checksum differs.
    """
    try:
        yield
    except StoreError:
        raise
    except (pa.ArrowException, OSError) as failed:
        # Arrow's own errors have no number; those of the operating system aren't damage.
        if getattr(failed, "errno", None) is not None:
            raise
        raise damaged(file, str(failed).splitlines()[0]) from failed


def read_pages(file: Path, columns: Sequence[str]) -> pa.Table:
    """Columns of a Parquet file whose page checksums are verified.

    Raises:
        StoreError: naming the file, for a page that isn't what was written.
    """
    with reading_pages(file):
        return parquet.read_table(file, columns=list(columns), page_checksum_verification=True)


def check_pages(files: Iterable[Path], columns: Sequence[str]) -> None:
    """Decode columns of Parquet files, a row group at a time, for the sake of their checksums.

    Raises:
        StoreError: naming the first file with a page that isn't what was written.
    """
    for file in files:
        with reading_pages(file), parquet.File(file, page_checksum_verification=True) as opened:
            for group in range(opened.num_row_groups):
                opened.read_row_group(group, columns=list(columns), use_threads=False)


def marks_text(lines: Sequence[str]) -> str:
    """The text of current/<name>.txt: a path a line, and a digest of them at the end."""
    paths = "".join(f"{line}\n" for line in lines)
    return f"{paths}{_MARKED}{hashlib.sha256(paths.encode()).hexdigest()}\n"


def read_mark(file: Path) -> list[str]:
    """The paths, relative to the workspace, that a file current/<name>.txt lists as live.

    Raises:
        StoreError: naming the file, where its digest is missing or differs, and for a path that leads
            elsewhere.
    """
    cure = (
        f"Rename it to {file}{LOST}, and give the command again that made its artefacts; gc removes nothing "
        "while a list is lost"
    )
    lines = file.read_text(errors="replace").splitlines()
    paths = [line for line in lines if not line.startswith("#")]
    if marks_text(paths).splitlines() != lines:
        raise StoreError(
            str(file),
            cause="its last line isn't the digest of the paths before: it was changed since it was written",
            cure=cure,
        )
    if (astray := next((path for path in paths if not is_plain(path)), None)) is not None:
        raise StoreError(
            str(file),
            astray,
            cause="it leads out of the workspace",
            cure=cure,
        )
    return paths


def damaged(file: Path, found: str) -> StoreError:
    """The error of a file that isn't what was published."""
    return StoreError(
        str(file),
        found,
        cause="the artefact isn't what its manifest says",
        cure=cure_of(file),
    )


def _differ(found: str, expected: str) -> str:
    return f"sha256 {found[:12]}, not {expected[:12]}"
