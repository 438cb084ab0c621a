"""YAML text becomes a frozen model, or an error that names file, line, field and the likely meant field."""

import difflib
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.errors import CurriculumError

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[int | str, ...]

LARGEST_TEXT = 1_000_000
"""Characters; a corpus or diet file is a page or two, and more is an attack or a mix-up."""


class Strict(BaseModel):
    """A value of the edge: frozen, and no field that isn't declared."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases, which can blow up, and without keys that silently win over one another."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases are not read", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


# YAML 1.1 reads 2020-01-01 as a date and 1_0 as a number; dates stay text, the models parse them.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(model: type[Model], text: str, *, file: str, error: type[CurriculumError]) -> Model:
    """The model that `text` says, whose errors read `file:line: field = value; cause. cure`.

    Raises:
        CurriculumError: of the given kind, for text that isn't YAML or doesn't fit the model; all
            faults are in one message, a line each.
    """
    node = _compose(text, file=file, error=error)
    content = _construct(text, file=file, error=error)
    try:
        return model.model_validate(content)
    except ValidationError as invalid:
        faults = [
            _fault(fault, content, node, model=model, file=file, error=error)
            for fault in _causes(invalid)
        ]
        if len(faults) == 1:
            raise faults[0] from None
        listed = "\n".join(str(fault) for fault in faults[1:])
        first = faults[0]
        raise error(
            first.name, first.value, cause=first.cause, cure=f"{first.cure}\n{listed}"
        ) from None


def _causes(invalid: ValidationError) -> list[Any]:
    """The faults without those that only follow from a fault inside them."""
    faults = invalid.errors(include_url=False)
    places = [fault["loc"] for fault in faults]
    return [
        fault
        for fault in faults
        if not any(
            len(place) > len(fault["loc"]) and place[: len(fault["loc"])] == fault["loc"]
            for place in places
        )
    ]


def _compose(text: str, *, file: str, error: type[CurriculumError]) -> yaml.Node | None:
    if len(text) > LARGEST_TEXT:
        raise error(
            file,
            f"{len(text)} characters",
            cause=f"a configuration file has at most {LARGEST_TEXT}",
            cure="Give the YAML file itself",
        )
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as broken:
        raise _not_yaml(broken, file=file, error=error) from None
    if not isinstance(node, yaml.MappingNode):
        raise error(
            f"{file}:1",
            text[:40].strip() or "nothing",
            cause="a configuration file is a mapping of fields",
            cure="Start with a line such as `name: …`",
        )
    return node


def _construct(text: str, *, file: str, error: type[CurriculumError]) -> object:
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as broken:
        raise _not_yaml(broken, file=file, error=error) from None


def _not_yaml(broken: Exception, *, file: str, error: type[CurriculumError]) -> CurriculumError:
    mark = getattr(broken, "problem_mark", None)
    where = f"{file}:{mark.line + 1}" if mark else file
    problem = getattr(broken, "problem", None) or str(broken) or "nested too deeply"
    return error(where, problem, cause="this is not the YAML we read", cure="Mend that line")


def _fault(
    fault: Any,
    content: object,
    node: yaml.Node | None,
    *,
    model: type[BaseModel],
    file: str,
    error: type[CurriculumError],
) -> CurriculumError:
    location: Location = fault["loc"]
    line, found = _locate(node, location)
    where = f"{file}:{line}"
    field = ".".join(str(step) for step in found) or "the file"
    if fault["type"] == "extra_forbidden":
        known = _fields_beside(model, location)
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        cure = f"Did you mean {near[0]!r}?" if near else f"Known fields: {', '.join(known)}"
        return error(
            where, f"{field} = {_short(fault['input'])}", cause="there is no such field", cure=cure
        )
    if fault["type"] == "missing":
        return error(where, f"{field} is missing", cause="the field is required", cure="Add it")
    message = str(fault["msg"]).removeprefix("Value error, ")
    cause, _, cure = message.partition(". ")
    return error(
        where, f"{field} = {_short(fault['input'])}", cause=cause, cure=cure or "Mend the value"
    )


def _locate(node: yaml.Node | None, location: Location) -> tuple[int, Location]:
    """The line of a location and as much of the location as stands in the text.

    pydantic puts names of union members into locations; what isn't in the text is passed over.
    """
    line = (node.start_mark.line + 1) if node else 1
    found: list[int | str] = []
    for step in location:
        child = _child(node, step)
        if child is None:
            if step is location[-1] and isinstance(step, str):
                found.append(step)
            continue
        mark, node = child
        line = mark.line + 1
        found.append(step)
    return line, tuple(found)


def _child(node: yaml.Node | None, step: int | str) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    return None


def _fields_beside(model: type[BaseModel], location: Location) -> Sequence[str]:
    for step in location[:-1]:
        field = model.model_fields.get(str(step))
        inner = next(_models_in(field.annotation), None) if field else None
        model = inner or model
    return list(model.model_fields)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
