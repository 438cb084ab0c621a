"""YAML files as frozen models: strict YAML, and errors that name file, line, field and likely meant field.

Read are the words of YAML 1.2 (`true`, `null`, `17`, `1e-3`); `no`, `010` and `12:30` stay text.
"""

import ast
import difflib
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    RootModel,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import CoreSchema

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
        began = broken.context_mark.line + 1 if broken.context_mark else line
        if began < line and (opened := _OPENED.get(broken.context or "")):
            line, problem, cure = began, f"{opened[0]} (found on line {line})", opened[1]
        elif (problem or "").startswith("expected <block end>"):
            problem = f"its indent isn't that of line {_deeper_since(text, line)}, which it follows"
            cure = "Indent both alike"
    else:
        line = text.count("\n", 0, getattr(broken, "position", 0)) + 1
        problem, cure = str(broken).partition("\n")[0], "Save the file as plain UTF-8 text"
    tab = "'\\t'" in (problem or "")
    cure = cure or ("Indent with spaces, not tabs" if tab else "Mend that line")
    return error(f"{file}:{line}", problem, cause="this is not the YAML we read", cure=cure)


def _deeper_since(text: str, line: int) -> int:
    r"""The first of the lines just before one that are indented deeper, counted from 1.

    >>> _deeper_since("a:\n   - b: 1\n     c: 2\n  - b: 3\n", 4)
    2
    """
    lines = text.splitlines()
    depths = [len(each) - len(each.lstrip()) for each in lines]
    first = line - 1
    while first > 0 and (depths[first - 1] > depths[line - 1] or not lines[first - 1].strip()):
        first -= 1
    return first + 1 if first < line - 1 else max(line - 1, 1)


_OPENED = {
    "while parsing a flow mapping": ("a { isn't closed, or a comma is missing", "Close it with }"),
    "while parsing a flow sequence": ("a [ isn't closed, or a comma is missing", "Close it with ]"),
    "while scanning a simple key": ("a name has no colon", "Write `name: value`"),
    "while scanning a quoted scalar": ("a quote isn't closed", "Close it"),
}
"""Faults that a YAML reader notices on a later line than they are on, and their cures."""

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[int | str, ...]

MOST_FAULTS = 20
"""Faults that one message lists."""


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
        raise _all(_faults(invalid, node, model, file=file, error=error)) from None


def line_of(text: str, location: Location, *, file: str, error: type[CurriculumError]) -> int:
    r"""The line on which a field stands, counted from 1; of what encloses it where it isn't there.

    >>> line_of("a: 1\nb:\n  - c: 2", ("b", 0, "c"), file="x.yaml", error=CurriculumError)
    3
    """
    return _locate(read_yaml(text, file=file, error=error).node, location)[0]


def nearest(name: str, known: Iterable[str]) -> str:
    """The cure for a name that isn't known: the likely one, and else all.

    >>> nearest("synatx", ["syntax", "structure"]), nearest("x", ["syntax", "structure"])
    ("Did you mean 'syntax'?", 'There are: syntax, structure')
    """
    listed = list(known)
    near = difflib.get_close_matches(name, listed, n=1, cutoff=0.5)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(listed) or 'none'}"


def _all(faults: Sequence[CurriculumError]) -> CurriculumError:
    first, others = faults[0], faults[1:]
    if not others:
        return first
    listed = "\n".join(str(fault) for fault in others)
    return type(first)(first.name, first.value, cause=first.cause, cure=f"{first.cure}\n{listed}")


def _faults(
    invalid: ValidationError,
    node: yaml.Node,
    model: type[BaseModel],
    *,
    file: str,
    error: type[CurriculumError],
) -> list[CurriculumError]:
    """One error a field, without those that only follow from a fault inside them."""
    details = invalid.errors(include_url=False, include_context=True)
    around = {detail["loc"][:cut] for detail in details for cut in range(len(detail["loc"]))}
    unknown = [each["loc"] for each in details if each["type"] == "extra_forbidden"][:MOST_FAULTS]
    renamed = {(*location[:-1], _likely(model, location)) for location in unknown}
    commas = (_decimal_comma(node, location) for location in unknown)
    cut = {found.location for found in commas if found is not None}
    faults: dict[tuple[int, Location], CurriculumError] = {}
    for detail in details:
        # A field under another name isn't missing as well, and 0,6 isn't the number 0.
        if detail["loc"] in around | cut or (
            detail["type"] == "missing" and detail["loc"] in renamed
        ):
            continue
        if len(faults) == MOST_FAULTS:
            break
        place = _locate(node, detail["loc"])
        if place not in faults:
            faults[place] = _fault(detail, place, node, model=model, file=file, error=error)
    return list(faults.values())


def _fault(
    detail: Any,
    place: tuple[int, Location],
    node: yaml.Node,
    *,
    model: type[BaseModel],
    file: str,
    error: type[CurriculumError],
) -> CurriculumError:
    line, found = place
    where = f"{file}:{line}"
    field = ".".join(str(step) for step in found) or "the file"
    if detail["type"] == "missing":
        return error(where, f"{field} is missing", cause="the field is required", cure="Add it")
    value = _with_value(field, detail["input"])
    if detail["type"] == "extra_forbidden":
        if (comma := _decimal_comma(node, detail["loc"])) is not None:
            cause = "a comma ends the number"
            return error(where, value, cause=cause, cure=f"Write a point: {comma.number}")
        cure = _likely_field(model, detail["loc"])
        return error(where, value, cause="there is no such field", cure=cure)
    if detail["type"] == "literal_error":
        known = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
        cure = nearest(str(detail["input"]), known)
        return error(where, value, cause="there is no such value", cure=cure)
    message = str(detail["msg"]).removeprefix("Value error, ")
    cause, _, cure = message.partition(". ")
    cure = cure or _as_number(detail) or _CURES.get(detail["type"], "Mend the value")
    several = getattr(detail.get("ctx", {}).get("error"), "fields", ())
    if several:
        lines = sorted({_locate(node, (*detail["loc"], *each))[0] for each in several})
        listed = ", ".join(map(str, lines))
        name = several[0][-1]
        return error(f"{file}:{lines[0]}", f"{name} on lines {listed}", cause=cause, cure=cure)
    return error(where, value, cause=cause, cure=cure)


def _likely(model: type[BaseModel], location: Location) -> str:
    """The field that a name which isn't one stands for; "" where no field is near."""
    name, beside = str(location[-1]), _model_beside(model, location)
    fields = list(beside.model_fields)
    if name in fields:
        return ""
    other_name = getattr(beside, "OTHER_NAMES", {}).get(name.lower())
    near = difflib.get_close_matches(name.lower(), fields, n=1, cutoff=0.5)
    return str(other_name or (near[0] if near else ""))


def _likely_field(model: type[BaseModel], location: Location) -> str:
    """The cure for a name of a field that isn't known."""
    likely = _likely(model, location)
    fields = _model_beside(model, location).model_fields
    for name, field in fields.items():
        if any(location[-1] in inner.model_fields for inner in _models_in(field.annotation)):
            return f"It is a field of {name}: move it there"
    return f"Did you mean {likely!r}?" if likely else f"There are: {', '.join(fields) or 'none'}"


class _Comma(NamedTuple):
    """A number that a comma cuts in two."""

    location: Location
    number: str


def _decimal_comma(node: yaml.Node, location: Location) -> _Comma | None:
    """The number of `{share: 0,6}`, which says share 0 and a field 6; None for any other field."""
    *parents, last = location
    for step in parents:
        _, node = _child(node, step) or (None, node)
    if not isinstance(node, yaml.MappingNode) or not str(last).isdecimal():
        return None
    names = [key.value for key, _ in node.value]
    index = names.index(last) if last in names else 0
    if not index or node.value[index][1].value:
        return None
    name, whole = names[index - 1], node.value[index - 1][1].value
    return _Comma((*parents, name), f"{name}: {whole}.{last}")


_DECIMAL = re.compile(r"\s*([-+]?[0-9]*)[.,]?([0-9]*)\s*(%?)\s*")


def _as_number(detail: Any) -> str:
    """The cure for text where a number belongs; "" where it isn't clear which.

    >>> [_as_number({"type": "float_type", "input": each}) for each in ("0,5", "50%", "2.5 %", "half")]
    ['Write 0.5', 'Write 0.5', 'Write 0.025', '']
    """
    given = detail["input"]
    match = _DECIMAL.fullmatch(given) if isinstance(given, str) else None
    if match is None or not (match[1] or match[2]) or not detail["type"].startswith("float"):
        return ""
    number = Decimal(f"{match[1] or 0}.{match[2] or 0}") / (100 if match[3] else 1)
    return f"Write {number.normalize():f}"


_CURES = {
    "string_type": "Put it in quotes",
    "finite_number": "Write a finite number",
    "float_type": "Write a number",
    "float_parsing": "Write a number",
    "int_type": "Write a whole number",
    "int_parsing": "Write a whole number",
    "int_from_float": "Write a whole number",
    "tuple_type": "Write a list, such as [a, b]",
    "too_short": "List at least one",
    "dict_type": "Write fields, such as {name: value}",
    "model_type": "Write fields, such as {name: value}",
    "string_pattern_mismatch": "Use letters, digits, dot, dash and underscore",
    "greater_than": "Raise it",
    "greater_than_equal": "Raise it",
    "less_than": "Lower it",
    "less_than_equal": "Lower it",
    "multiple_of": "Round it",
}
"""Cures of the faults that pydantic names."""


def _locate(node: yaml.Node | None, location: Location) -> tuple[int, Location]:
    """The line of a location and as much of the location as stands in the text.

    pydantic puts names of union members into locations; what isn't in the text is passed over.
    """
    line = (node.start_mark.line + 1) if node else 1
    found: list[int | str] = []
    for depth, step in enumerate(location, 1):
        child = _child(node, step)
        if child is None:
            if depth == len(location) and isinstance(step, str) and _is_field(step):
                found.append(step)
            continue
        mark, node = child
        line = mark.line + 1
        found.append(step)
    return line, tuple(found)


def _is_field(step: str) -> bool:
    """Return True if a step of a location can be a field, rather than pydantic's name of a type."""
    return step.isidentifier() and step not in {"int", "float", "str", "bool"}


def _child(node: yaml.Node | None, step: int | str) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    return None


def _model_beside(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """The model whose fields may stand where `location` ends."""
    for step in location[:-1]:
        field = model.model_fields.get("root" if issubclass(model, RootModel) else str(step))
        inner = next(_models_in(field.annotation), None) if field else None
        model = inner or model
    return model


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)


def _with_value(field: str, value: object) -> str:
    """A field and its value; the file says better what a long list or mapping holds."""
    text = repr(value)
    if len(text) <= 60:
        return f"{field} = {text}"
    return field if isinstance(value, dict | list) else f"{field} = {text[:57]}…"
