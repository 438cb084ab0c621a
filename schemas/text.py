"""YAML files as frozen models. YAML is read strictly, and errors name file, line and field (mistakes.py).

Plain values follow YAML 1.2 (`true`, `null`, `17`, `1e-3`); `no`, `010` and `12:30` stay text.
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
"""Maximum number of characters in a file. Corpus and diet files have a page or two; larger files are attacks
or mistakes.
"""
_HALF = re.compile("[\ud800-\udfff]")
"""Pattern of a lone surrogate, for example from the escape "\\ud800". File names can't contain it."""
DEEPEST = 20
"""Maximum nesting of lists and mappings; the deepest shipped file needs five."""
MAX_NODES = 50_000
"""Maximum number of names, values, lists and mappings in a file; a corpus of 5,000 repositories has as many.
Reading takes 30 µs per node.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlText:
    """A parsed mapping: its nodes, which know their lines, and its plain values."""

    node: yaml.MappingNode
    content: Any


def named(shipped: Iterable[Path], own: Path | None) -> dict[str, Path]:
    """Return YAML files by name, sorted. A file of the user replaces a shipped one with the same name."""
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
            raise _refused(event, "YAML aliases are not supported", "Write the value out")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _refused(event, f"the YAML tag {tag} is not supported", "Write the plain value")
        if isinstance(event, yaml.ScalarEvent) and _HALF.search(event.value):
            raise _refused(
                event, "a lone surrogate is not a character", "Write the whole character"
            )
        if self.depth == DEEPEST:
            raise _refused(event, f"more than {DEEPEST} levels of nesting", "Flatten the file")
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
                raise _refused(key, "a field name must be a single word", "Write `name: value`")
            if key.value in mapping:
                first = next(
                    first_key for first_key, _ in node.value if first_key.value == key.value
                )
                line = first.start_mark.line + 1
                problem = f"the key {key.value!r} occurs twice, first on line {line}"
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
    """Return the text of a YAML file; links are followed.

    Raises:
        CurriculumError: of the given type, if the path isn't a file, or the file is too large, unreadable
        or not UTF-8.
    """
    try:
        content = regular_files.read(file, most=4 * MAX_TEXT, follow_links=True)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        line = broken.object.count(b"\n", 0, broken.start) + 1
        cause, cure = "the file is not UTF-8", "Save the file as UTF-8"
        raise error(f"{file}:{line}", cause=cause, cure=cure) from None
    except (OSError, ValueError) as unreadable:
        cause = f"the file can't be read: {unreadable}"
        raise error(str(file), cause=cause, cure="Give the path of a YAML file") from None


def read_yaml(text: str, *, file: str, error: type[CurriculumError]) -> YamlText:
    """Return the mapping in a YAML text.

    Raises:
        CurriculumError: of the given type, with file and line, if the text is too long, isn't YAML, isn't a
        mapping, or uses aliases, tags, deep nesting or duplicate keys.
    """
    if len(text) > MAX_TEXT:
        raise error(
            file,
            f"{len(text)} characters",
            cause=f"a configuration file has at most {MAX_TEXT} characters",
            cure="Give the path of a YAML file",
        )
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if isinstance(node, yaml.MappingNode):
                return YamlText(node=node, content=loader.construct_document(node))
        except (ValueError, OverflowError):
            # PyYAML passes the number of "\\UFFFFFFFF" to chr, and the number of a %YAML directive to int.
            mark = loader.get_mark()
            problem = "the number of an escape or of a %YAML directive is too large"
            cure = "Write the character itself, and remove the directive"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark, note=cure) from None
        finally:
            loader.dispose()
    except yaml.YAMLError as broken:
        raise not_yaml(broken, text, file=file, error=error) from None
    raise error(
        f"{file}:{node.start_mark.line + 1 if node else 1}",
        text[:40].strip() or "nothing",
        cause="a configuration file is a mapping of fields",
        cure="Start with a line like `name: …`",
    )


def _refused(where: yaml.Event | yaml.Node, problem: str, cure: str) -> yaml.MarkedYAMLError:
    mark: Any = where.start_mark
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark, note=cure)


Model = TypeVar("Model", bound=BaseModel)


Whole = Annotated[int, Field(strict=True)]
"""A whole number; "17" and true are refused."""
Number = Annotated[float, Field(strict=True)]
"""A number, whole or not; "0.5" and true are refused."""


class FieldsError(ValueError):
    """A fault that several fields cause together. The message names the line of each field."""

    def __init__(self, message: str, *, fields: Sequence[Location]) -> None:
        super().__init__(message)
        self.fields = fields


class Strict(BaseModel):
    """Base of validated models: they are frozen, and refuse undeclared fields."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Names that other tools use for a field, each with the name of the field here."""

    # Models are built on first use, because a command validates few of the models that it imports.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_nul_and_no_bool_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        """Raise if a text has a NUL, or a number is given as a boolean; pydantic would read true as 1."""
        if isinstance(value, bool):
            if cls.model_fields[str(info.field_name)].annotation in (int, float):
                raise ValueError("true and false are not numbers. Write a number")
            return value
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, str) and "\0" in item:
                raise ValueError("the value contains a NUL character. Remove it")
        return value


class Documented(Strict):
    """A model whose JSON Schema uses the docstrings of fields as descriptions.

    The docstrings are read from the source code only when a schema is made. pydantic's
    `use_attribute_docstrings` would read the source on every import, which takes longer than most of a short
    command.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return pydantic's schema with the docstrings of fields as descriptions."""
        schema = handler(core_schema)
        documented = field_docstrings(cls)
        for name, field in handler.resolve_ref_schema(schema).get("properties", {}).items():
            if name in documented:
                field.setdefault("description", documented[name])
        return schema


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's fields, including inherited ones."""
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
    """Return the model in a YAML text; errors read `file:line: field = value; cause. cure`.

    Raises:
        CurriculumError: of the given type, if the text isn't YAML or doesn't fit the model; the message has
        one line per fault.
    """
    source = read_yaml(text, file=file, error=error)
    return validated(model, source.content, source.node, file=file, error=error)


def validated(
    model: type[Model], content: object, node: yaml.Node, *, file: str, error: type[CurriculumError]
) -> Model:
    """Return parsed content as a model. Faults are reported with their lines in `node`.

    A field that `node` lacks, because it was filled in later, gets the line of its parent.

    Raises:
        CurriculumError: of the given type; the message has one line per fault.
    """
    try:
        return model.model_validate(content)
    except ValidationError as invalid:
        raise faults(invalid, node, model, file=file, error=error) from None


def line_of(text: str, location: Location, *, file: str, error: type[CurriculumError]) -> int:
    r"""Return the 1-based line of a field, or of its nearest existing parent.

    >>> line_of("a: 1\nb:\n  - c: 2", ("b", 0, "c"), file="x.yaml", error=CurriculumError)
    3
    """
    return locate(read_yaml(text, file=file, error=error).node, location)[0]
