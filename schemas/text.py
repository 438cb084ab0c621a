"""YAML files as frozen models: strict YAML, and errors that name file, line and field (mistakes.py).

Read are the words of YAML 1.2 (`true`, `null`, `17`, `1e-3`); `no`, `010` and `12:30` stay text.
"""

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import CoreSchema

from schemas import regular_files
from schemas.errors import CurriculumError
from schemas.mistakes import Location, faults, locate, not_yaml

MAX_TEXT = 1_000_000
"""Characters; a corpus or diet file is a page or two, and more is an attack or a mix-up."""
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a character, which an escape such as "\\ud800" gives and no file can be named by."""
DEEPEST = 20
"""Nested lists and mappings; our deepest file needs five."""
MAX_NODES = 50_000
"""Names, values, lists and mappings: a corpus of 5,000 repositories. Reading takes 30 µs for each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlText:
    """A mapping that was read: its nodes, which know their lines, and its plain values."""

    node: yaml.MappingNode
    content: Any


def named(shipped: Iterable[Path], own: Path | None) -> dict[str, Path]:
    """YAML files by name, sorted; those of one's own folder stand before shipped ones of the same name."""
    files = {file.stem: file for file in shipped}
    if own is not None and own.is_dir():
        mine = (file for file in own.glob("*.yaml") if not file.name.startswith("."))
        files |= {file.stem: file for file in mine}
    return dict(sorted(files.items()))


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 -- the parent's registry, begun anew

    depth = 0
    nodes = 0

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
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _refused(event, f"more than {MAX_NODES:,} values", "Split the file")
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
                first = next(each for each, _ in node.value if each.value == key.value)
                line = first.start_mark.line + 1
                problem = f"the key {key.value!r} stands twice, first on line {line}"
                raise _refused(key, problem, "Remove one of them")
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


def text_of(file: Path, *, error: type[CurriculumError]) -> str:
    """The text of a YAML file, which may lie behind links.

    Raises:
        CurriculumError: of the given kind, for what is no file, has too many bytes, can't be read or isn't
            UTF-8.
    """
    try:
        content = regular_files.read(file, most=4 * MAX_TEXT, follow_links=True)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        line = broken.object.count(b"\n", 0, broken.start) + 1
        cause, cure = "this is not UTF-8", "Save the file as UTF-8"
        raise error(f"{file}:{line}", cause=cause, cure=cure) from None
    except (OSError, ValueError) as unreadable:
        cause = f"it can't be read ({unreadable})"
        raise error(str(file), cause=cause, cure="Give the YAML file itself") from None


def read_yaml(text: str, *, file: str, error: type[CurriculumError]) -> YamlText:
    """The mapping that `text` holds.

    Raises:
        CurriculumError: of the given kind, with file and line, for text that is too long, isn't YAML,
            isn't a mapping, or uses aliases, tags, deep nesting or a key twice.
    """
    if len(text) > MAX_TEXT:
        raise error(
            file,
            f"{len(text)} characters",
            cause=f"a configuration file has at most {MAX_TEXT}",
            cure="Give the YAML file itself",
        )
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if isinstance(node, yaml.MappingNode):
                return YamlText(node=node, content=loader.construct_document(node))
        except (ValueError, OverflowError):
            # PyYAML passes the number of "\\UFFFFFFFF" to chr, and that of a %YAML directive to int.
            mark = loader.get_mark()
            problem = "the number of an escape or of a %YAML directive is too large"
            cure = "Write the character itself, and no directive"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark, note=cure) from None
        finally:
            loader.dispose()
    except yaml.YAMLError as broken:
        raise not_yaml(broken, text, file=file, error=error) from None
    raise error(
        f"{file}:{node.start_mark.line + 1 if node else 1}",
        text[:40].strip() or "nothing",
        cause="a configuration file is a mapping of fields",
        cure="Start with a line such as `name: …`",
    )


def _refused(where: yaml.Event | yaml.Node, problem: str, cure: str) -> yaml.MarkedYAMLError:
    mark: Any = where.start_mark
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark, note=cure)


Model = TypeVar("Model", bound=BaseModel)


Whole = Annotated[int, Field(strict=True)]
"""A whole number; "17" and true are none."""
Number = Annotated[float, Field(strict=True)]
"""A number, whole or not; "0.5" and true are none."""


class FieldsError(ValueError):
    """A fault of several fields together, each named by its line beside the message."""

    def __init__(self, message: str, *, fields: Sequence[Location]) -> None:
        super().__init__(message)
        self.fields = fields


class Strict(BaseModel):
    """A value of the edge: frozen, and no field that isn't declared."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Names that other tools give to a field, and the field's own."""

    # A command validates few of the models that it imports: each is built when it is first used.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_nul_and_no_bool_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        """Refuse what no path or argument of a program can hold, and `share: true`, pydantic's 1."""
        if isinstance(value, bool):
            if cls.model_fields[str(info.field_name)].annotation in (int, float):
                raise ValueError("true and false are no numbers. Write a number")
            return value
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, str) and "\0" in each:
                raise ValueError("it holds a NUL character. Remove it")
        return value


class Documented(Strict):
    """A value whose JSON Schema describes the fields by their docstrings.

    They are read from the source when a schema is made: pydantic's `use_attribute_docstrings` reads it
    whenever the class is imported, which takes longer than most of what a short command does.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add descriptions to the fields of pydantic's schema."""
        schema = handler(core_schema)
        documented = field_docstrings(cls)
        for name, field in handler.resolve_ref_schema(schema).get("properties", {}).items():
            if name in documented:
                field.setdefault("description", documented[name])
        return schema


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings of a model's fields and of those that it inherits, as they stand in the source."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if (
            issubclass(kind, BaseModel)
            and "__annotations__" in vars(kind)
            and kind is not BaseModel
        ):
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
            assert isinstance(definition, ast.ClassDef)
            for field, said in itertools.pairwise(definition.body):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and isinstance(said, ast.Expr)
                    and isinstance(said.value, ast.Constant)
                    and isinstance(said.value.value, str)
                ):
                    found[field.target.id] = inspect.cleandoc(said.value.value)
    return found


def parse(model: type[Model], text: str, *, file: str, error: type[CurriculumError]) -> Model:
    """The model that `text` says, whose errors read `file:line: field = value; cause. cure`.

    Raises:
        CurriculumError: of the given kind, for text that isn't YAML or doesn't fit the model; all
            faults are in one message, a line each.
    """
    source = read_yaml(text, file=file, error=error)
    return validated(model, source.content, source.node, file=file, error=error)


def validated(
    model: type[Model], content: object, node: yaml.Node, *, file: str, error: type[CurriculumError]
) -> Model:
    """The model that `content` says; its faults are named by their lines in `node`.

    What `node` doesn't hold, because the content was completed, is named by the line around it.

    Raises:
        CurriculumError: of the given kind, with all faults in one message, a line each.
    """
    try:
        return model.model_validate(content)
    except ValidationError as invalid:
        raise faults(invalid, node, model, file=file, error=error) from None


def line_of(text: str, location: Location, *, file: str, error: type[CurriculumError]) -> int:
    r"""The line on which a field stands, counted from 1; of what encloses it where it isn't there.

    >>> line_of("a: 1\nb:\n  - c: 2", ("b", 0, "c"), file="x.yaml", error=CurriculumError)
    3
    """
    return locate(read_yaml(text, file=file, error=error).node, location)[0]
