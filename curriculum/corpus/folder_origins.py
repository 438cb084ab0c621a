"""Licences and vendored code in a plain folder, which has no git history."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from curriculum.corpus import sources
from curriculum.corpus.licence_files import (
    MAX_LICENCE_BYTES,
    licence_files,
    read_licence_files,
)
from curriculum.corpus.licence_names import is_licence_file
from curriculum.corpus.sources import Source
from curriculum.corpus.tree_origins import is_build_file, is_code, origin_of
from curriculum.corpus.vendored import FileOrigin, VendoredCode, find_vendored
from schemas.tree_licences import LicenceFiles


def vendored_in(
    source: Source,
    files: Iterable[sources.DirectoryFile],
    licences: LicenceFiles,
    *,
    max_bytes: int,
) -> VendoredCode:
    """Find vendored code in a plain folder; source files over `max_bytes` bytes are not read."""
    origins: dict[str, FileOrigin] = {}
    built: list[str] = []
    for file in files:
        path = os.fsdecode(file.raw)
        if file.is_link or not is_code(path):
            built += [path] if is_build_file(path) else []
            continue
        with suppress(OSError):
            content = sources.read_in_directory(source.path, file.raw, max_bytes=max_bytes)[1]
            origins[path] = origin_of(path, content or b"", licences)
    return find_vendored(origins, licences.folders, built, lambda folders: {})


def licences_in(source: Source) -> LicenceFiles:
    """Return the licences that the licence files of a plain folder state."""
    return licence_files(read_licence_files(_licence_files_in(source)))


def _licence_files_in(source: Source) -> Iterator[tuple[str, str, bytes]]:
    for file in sources.directory_files(source.path):
        path = file.raw.decode(errors="replace")
        if not file.is_link and is_licence_file(path):
            with suppress(OSError):
                content = sources.read_in_directory(
                    source.path, file.raw, max_bytes=MAX_LICENCE_BYTES
                )[1]
                yield path, path, content or b""
