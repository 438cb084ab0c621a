"""Licence annotations in REUSE.toml and .reuse/dep5, following the REUSE specification 3.3.

    REUSE.toml    in any folder: tables with globs, licence, holder and precedence
    .reuse/dep5   at the root: paragraphs with globs, licence and holder, added to what files state

The existing libraries for both formats are under the GPL and can read only work trees, so they aren't used.
An invalid file counts as empty. An id that is missing from the SPDX list is unrecognised.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from curriculum.corpus.copyright_holders import holder_in
from curriculum.corpus.licences import joined_tags
from schemas.path_globs import PathGlob, Wildcard
from schemas.tree_licences import DEP5_PATH, AnnotationFile, LicenceAnnotation, Precedence

MAX_ANNOTATIONS = 10_000
"""Maximum number of globs in an annotation file; a file with more globs counts as empty."""
GLOB_SIZE = 20
MAX_DOTS = 1_000
"""Maximum number of dots on a line of REUSE.toml, because parsing a dotted key takes quadratic time."""


def annotations_in(path: str, text: str) -> AnnotationFile:
    """Return the annotations in `text`, which is the content of the annotation file at `path`."""
    found = _paragraphs(text) if path == DEP5_PATH else _tables(text)
    annotations = tuple(annotation for annotation in found if annotation.globs)
    globs = [glob for annotation in annotations for glob in annotation.globs]
    if len(globs) > MAX_ANNOTATIONS:
        annotations, globs = (), []
    size = sum(GLOB_SIZE + len(glob.tokens) for glob in globs)
    folder = "" if path == DEP5_PATH else path.rpartition("/")[0]
    return AnnotationFile(path=path, folder=folder, annotations=annotations, size=size)


def _tables(text: str) -> Iterator[LicenceAnnotation]:
    if any(line.count(".") > MAX_DOTS for line in text.splitlines()):
        return
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    tables = content.get("annotations")
    if content.get("version") != 1 or not isinstance(tables, list):
        return
    for table in tables:
        if isinstance(table, dict):
            precedence: Precedence = table.get("precedence", "closest")
            if precedence in get_args(Precedence):
                yield LicenceAnnotation(
                    globs=tuple(map(toml_glob, _strings(table, "path"))),
                    precedence=precedence,
                    licence=_licence(_strings(table, "SPDX-License-Identifier")),
                    holder=_holder(_strings(table, "SPDX-FileCopyrightText")),
                )


def _strings(table: Mapping[str, Any], name: str) -> list[str]:
    """Return the strings in the field `name` of a table, which is one string or a list of strings."""
    value = table.get(name, [])
    return [
        item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)
    ]


def _paragraphs(text: str) -> Iterator[LicenceAnnotation]:
    for paragraph in _fields(text):
        licence = paragraph.get("license", "").partition("\n")[0]
        yield LicenceAnnotation(
            globs=tuple(map(dep5_glob, paragraph.get("files", "").split())),
            precedence="aggregate",
            licence=_licence([licence] if licence else []),
            holder=_holder(paragraph.get("copyright", "").splitlines()),
        )


def _fields(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each paragraph, by name in lower case; an indented line continues a field."""
    fields: dict[str, str] = {}
    name = ""
    for line in [*text.splitlines(), ""]:
        if not line.strip():
            yield fields
            fields, name = {}, ""
        elif line[0] in " \t":
            if name:
                fields[name] += f"\n{line.strip()}"
        elif line[0] != "#":
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()


def _licence(expressions: Iterable[str]) -> str | None:
    return joined_tags(map(str.strip, expressions))


def _holder(notices: Iterable[str]) -> str | None:
    named = (holder_in(f"SPDX-FileCopyrightText: {notice.strip()}") for notice in notices)
    return next(filter(None, named), None)


def toml_glob(text: str) -> PathGlob:
    """Parse a glob of REUSE.toml.

    `*` matches within a name, `**` and `**/` match across folders, and a backslash escapes a character.
    """
    tokens: list[str | Wildcard] = []
    at = 0
    while at < len(text):
        if text.startswith("**", at):
            tokens.append(Wildcard.ACROSS)
            at += 3 if text.startswith("/", at + 2) else 2
        elif text[at] == "*":
            tokens.append(Wildcard.WITHIN)
            at += 1
        else:
            at += text[at] == "\\" and at + 1 < len(text)
            tokens.append(text[at])
            at += 1
    return PathGlob(tuple(tokens))


def dep5_glob(text: str) -> PathGlob:
    """Parse a glob of .reuse/dep5.

    `*` matches across folders, `?` matches one character, and a backslash escapes a character.
    """
    tokens: list[str | Wildcard] = []
    characters = iter(text.removeprefix("./"))
    wildcards = {"*": Wildcard.ACROSS, "?": Wildcard.ONE}
    for character in characters:
        if character == "\\":
            tokens.append(next(characters, character))
        else:
            tokens.append(wildcards.get(character, character))
    return PathGlob(tuple(tokens))
