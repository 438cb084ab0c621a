"""Strict YAML: plain values only, each with its line; what could surprise or blow up is refused.

Read are the words of YAML 1.2 (`true`, `null`, `17`, `1e-3`); `no`, `010` and `12:30` stay text.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from schemas.errors import CurriculumError

LARGEST_TEXT = 1_000_000
"""Characters; a corpus or diet file is a page or two, and more is an attack or a mix-up."""
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a character, which an escape such as "\\ud800" gives and no file can be named by."""
DEEPEST = 20
"""Nested lists and mappings; our deepest file needs five."""


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlText:
    """A mapping that was read: its nodes, which know their lines, and its plain values."""

    node: yaml.MappingNode
    content: Any


def named(shipped: Iterable[Path], own: Path | None) -> dict[str, Path]:
    """YAML files by name, sorted; those of one's own folder stand before shipped ones of the same name."""
    files = {file.stem: file for file in shipped}
    if own is not None and own.is_dir():
        listed = (file for file in own.glob("*.yaml") if not file.name.startswith("."))
        # Something else, such as a pipe, would be waited for.
        mine = (file for file in listed if file.is_file())
        files |= {file.stem: file for file in mine}
    return dict(sorted(files.items()))


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 -- the parent's registry, begun anew

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _refused(event, "aliases are not read", "Write the value out")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _refused(event, f"the tag {tag} is not read", "Write the plain value")
        if isinstance(event, yaml.ScalarEvent) and _HALF.search(event.value):
            raise _refused(event, "half a character is no text", "Write the whole character")
        if self.depth == DEEPEST:
            raise _refused(event, f"more than {DEEPEST} levels are nested", "Write it flatter")
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:  # type: ignore[override]
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refused(key, "a field's name is one word", "Write `name: value`")
            if key.value in mapping:
                raise _refused(key, f"the key {key.value!r} stands twice", "Remove one of them")
            mapping[key.value] = self.construct_object(value, deep=deep)
        return mapping


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9_]{0,30})", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first)
    )


def read_yaml(text: str, *, file: str, error: type[CurriculumError]) -> YamlText:
    """The mapping that `text` holds.

    Raises:
        CurriculumError: of the given kind, with file and line, for text that is too long, isn't YAML,
            isn't a mapping, or uses aliases, tags, deep nesting or a key twice.
    """
    if len(text) > LARGEST_TEXT:
        raise error(
            file,
            f"{len(text)} characters",
            cause=f"a configuration file has at most {LARGEST_TEXT}",
            cure="Give the YAML file itself",
        )
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if isinstance(node, yaml.MappingNode):
                return YamlText(node=node, content=loader.construct_document(node))
        finally:
            loader.dispose()
    except yaml.YAMLError as broken:
        raise _not_yaml(broken, text, file=file, error=error) from None
    raise error(
        f"{file}:{node.start_mark.line + 1 if node else 1}",
        text[:40].strip() or "nothing",
        cause="a configuration file is a mapping of fields",
        cure="Start with a line such as `name: …`",
    )


def _refused(where: yaml.Event | yaml.Node, problem: str, cure: str) -> yaml.MarkedYAMLError:
    mark: Any = where.start_mark
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark, note=cure)


def _not_yaml(
    broken: yaml.YAMLError, text: str, *, file: str, error: type[CurriculumError]
) -> CurriculumError:
    if isinstance(broken, yaml.MarkedYAMLError) and broken.problem_mark:
        line = broken.problem_mark.line + 1
        problem, cure = broken.problem, broken.note
    else:
        line = text.count("\n", 0, getattr(broken, "position", 0)) + 1
        problem, cure = str(broken).partition("\n")[0], "Save the file as plain UTF-8 text"
    tab = "'\\t'" in (problem or "")
    cure = cure or ("Indent with spaces, not tabs" if tab else "Mend that line")
    return error(f"{file}:{line}", problem, cause="this is not the YAML we read", cure=cure)
