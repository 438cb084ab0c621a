"""Readable errors for mistakes in YAML files: file, line, field and value, cause, and the likely intention.

not_yaml     YAML syntax errors
faults       errors found by a model, one per field
nearest      hint for an unknown name, and its variants
"""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, RootModel, ValidationError

from schemas.errors import CurriculumError

Location = tuple[int | str, ...]
"""Path to a field from the root of a file: names of fields, and indices in lists."""
MAX_FAULTS = 20
"""Maximum number of faults in one message."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: similar names, or names that begin with it, or else all names.

    >>> nearest("synatx", ["syntax", "structure"]), nearest("x", ["syntax", "structure"])
    ("Did you mean 'syntax'?", 'Available: syntax, structure')
    >>> nearest("V2", ["v2_simple", "v2_doxygen", "v3_simple"])
    "Did you mean 'v2_simple' or 'v2_doxygen'?"
    """
    listed = list(known)
    return nearest_or(name, listed, f"Available: {', '.join(listed) or 'none'}")


def nearest_or(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint for an unknown name: the likely names, or `otherwise` if no name is similar.

    >>> nearest_or("row", ["rows", "runs"], "List them"), nearest_or("x", ["rows"], "List them")
    ("Did you mean 'rows'?", 'List them')
    """
    likely = _likely(name, list(known))
    return f"Did you mean {' or '.join(map(repr, likely))}?" if likely else otherwise


def nearest_of_all(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name that lists similar names, and then all names. Use it for short lists.

    >>> nearest_of_all("tny", ["tiny", "60m"]), nearest_of_all("x", ["tiny", "60m"])
    ("Did you mean 'tiny'? Available: tiny, 60m", 'Available: tiny, 60m')
    """
    listed = list(known)
    return f"{nearest_or(name, listed, '')} Available: {', '.join(listed)}".lstrip()


def _likely(name: str, known: Sequence[str]) -> list[str]:
    """Return the closest known names, ignoring case: best fuzzy match, else up to three prefix matches."""
    word = name.casefold()
    by_word = {known_name.casefold(): known_name for known_name in known}
    near = difflib.get_close_matches(word, by_word, n=1)
    if near:
        return [by_word[near[0]]]
    return [
        known_name
        for known_name in known
        if len(word) > 1 and known_name.casefold().startswith(word)
    ][:3]


def not_yaml(
    broken: yaml.YAMLError, text: str, *, file: str, error: type[CurriculumError]
) -> CurriculumError:
    """Return the error for a YAML syntax error, with the line on which the mistake was made."""
    cause = "the file is not valid YAML"
    if not (isinstance(broken, yaml.MarkedYAMLError) and broken.problem_mark):
        line = text.count("\n", 0, getattr(broken, "position", 0)) + 1
        problem = str(broken).partition("\n")[0]
        return error(f"{file}:{line}", problem, cause=cause, cure="Save the file as plain UTF-8")
    line = broken.problem_mark.line + 1
    problem, cure = broken.problem or "", broken.note
    began = broken.context_mark.line + 1 if broken.context_mark else line
    found = problem.removesuffix("'").partition("but found '")[2]
    if opened := _OPENED.get(broken.context or ""):
        elsewhere = f" (found on line {line})" if began < line else ""
        line, problem, cure = began, f"{opened[0]}{elsewhere}", opened[1]
    elif found in _BRACES:
        problem, cure = (
            f"a {found} has no matching {_BRACES[found]}",
            f"Remove it, or add the opening {_BRACES[found]}",
        )
    elif dash := _dash_without_space(text, line):
        line, problem, cure = dash
    elif problem.startswith("expected <block end>"):
        problem = (
            f"its indentation differs from line {_deeper_since(text, line)}, which belongs to the "
            "same block"
        )
        cure = "Indent both lines equally"
    elif problem.startswith("mapping values"):
        problem, cure = _second_colon(text, line, broken.problem_mark.column)
    elif problem.startswith("found character"):
        tab = "'\\t'" in problem
        cure = "Indent with spaces, not tabs" if tab else "Put the value in quotes"
    return error(f"{file}:{line}", problem, cause=cause, cure=cure or "Correct this line")


_OPENED = {
    "while parsing a flow mapping": (
        "a { isn't closed, or a comma is missing",
        "Close it with }",
    ),
    "while parsing a flow sequence": ("a [ isn't closed, or a comma is missing", "Close it with ]"),
    "while scanning a simple key": (
        "a field name needs a colon with a space after it",
        "Write `name: value`",
    ),
    "while scanning a quoted scalar": ("a quote isn't closed", "Close the quote"),
}
"""Faults that a YAML parser only notices after the place of the mistake, and their causes and hints."""
_BRACES = {"}": "{", "]": "["}


def _second_colon(text: str, line: int, column: int) -> tuple[str, str]:
    """Return cause and hint for a colon that the parser doesn't expect at a column of a line."""
    said = text.splitlines()[line - 1]
    before = said[:column].lstrip(" -")
    above = _line_above(text, line)
    if ":" not in before and above:
        return (
            f"it is indented deeper than line {above}, which already has a value",
            "Indent both lines equally",
        )
    for closing, opening in _BRACES.items():
        if said.count(closing) > said.count(opening):
            return (
                f"a {opening} is missing before {before.partition(':')[0]}",
                f"Add the opening {opening}",
            )
    return "the line has a second colon", "Put text with a colon in quotes, or fields in { }"


def _dash_without_space(text: str, line: int) -> tuple[int, str, str] | None:
    """Return line, cause and hint for a list entry that starts with `-{`, on this line or the one above."""
    lines = text.splitlines()
    for at in (line, _line_above(text, line)):
        match = _DASH.match(lines[at - 1]) if 0 < at <= len(lines) else None
        if match is not None:
            begins = match[1]
            return at, f"-{begins} …: a dash needs a space after it", f"Write - {begins} …"
    return None


_DASH = re.compile(r"\s*-(\{?\w{1,40}:)(?= |$)")


def _line_above(text: str, line: int) -> int:
    """Return the number of the previous line that isn't blank or a comment; 0 if there is none."""
    lines = text.splitlines()
    at = line - 1
    while at > 0 and (not lines[at - 1].strip() or lines[at - 1].lstrip().startswith("#")):
        at -= 1
    return at


def _deeper_since(text: str, line: int) -> int:
    r"""Return the first of the lines directly before `line` that are indented deeper, counted from 1.

    >>> _deeper_since("a:\n   - b: 1\n     c: 2\n  - b: 3\n", 4)
    2
    """
    lines = text.splitlines()
    depths = [len(text_line) - len(text_line.lstrip()) for text_line in lines]
    first = line - 1
    while first > 0 and (depths[first - 1] > depths[line - 1] or not lines[first - 1].strip()):
        first -= 1
    return first + 1 if first < line - 1 else max(line - 1, 1)


def locate(node: yaml.Node | None, location: Location) -> tuple[int, Location]:
    """Return the line of a field, and that part of its location that exists in the text.

    pydantic adds the names of types in a union to locations; steps that aren't in the text are skipped.
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
    """Return True if a step of a location can be the name of a field, not pydantic's name of a type."""
    return step.isidentifier() and step not in {"int", "float", "str", "bool"}


def _child(node: yaml.Node | None, step: int | str) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    return None


def faults(
    invalid: ValidationError,
    node: yaml.Node,
    model: type[BaseModel],
    *,
    file: str,
    error: type[CurriculumError],
) -> CurriculumError:
    """Return one error for all faults of a file, with one line per field.

    Faults that are only a consequence of nested faults are left out.
    """
    details = invalid.errors(include_url=False, include_context=True)
    around = {detail["loc"][:cut] for detail in details for cut in range(len(detail["loc"]))}
    missing = {detail["loc"] for detail in details if detail["type"] == "missing"}
    unknown = [detail["loc"] for detail in details if detail["type"] == "extra_forbidden"][
        :MAX_FAULTS
    ]
    renamed = {(*location[:-1], _likely_field(model, location)) for location in unknown}
    commas = (_decimal_comma(node, location) for location in unknown)
    cut = {found.location for found in commas if found is not None}
    dedented = {entry.location: entry for entry in _dedented(node, model, unknown)}
    found: dict[tuple[int, Location], CurriculumError] = {}
    for detail in details:
        # A misnamed field isn't missing as well, and 0,6 isn't the number 0.
        if detail["loc"] in around | cut or detail["loc"] in missing & renamed:
            continue
        if (entry := dedented.get(detail["loc"][:-1])) is not None:
            found.setdefault((entry.line, entry.location), entry.error(file, error))
            continue
        if _summed(detail) and any(entry.before == detail["loc"] for entry in dedented.values()):
            continue  # The sum is wrong only because of the misplaced entry.
        if len(found) == MAX_FAULTS:
            break
        place = locate(node, detail["loc"])
        if place not in found:
            found[place] = _Refusal(detail, node, model, missing).error(file, error)
    return _together([*found.values()])


class _Dedented(NamedTuple):
    """A list entry that is indented too little: it was meant for a list inside the previous entry."""

    location: Location
    line: int
    names: tuple[str, ...]
    owner: str
    """Field of the previous entry to whose list this entry should belong."""
    like: int
    """Line of the last entry in that list."""

    @property
    def before(self) -> Location:
        """Location of the previous entry."""
        return (*self.location[:-1], int(self.location[-1]) - 1)

    def error(self, file: str, error: type[CurriculumError]) -> CurriculumError:
        """Return the error for this entry."""
        return error(
            f"{file}:{self.line}",
            f"an entry with {', '.join(self.names)}",
            cause=(
                f"it is indented as an entry of {self.location[-2]}, but has the fields of "
                f"{self.owner}"
            ),
            cure=f"Indent it like line {self.like}",
        )


def _dedented(
    node: yaml.Node, model: type[BaseModel], unknown: Iterable[Location]
) -> Iterator[_Dedented]:
    """Yield list entries that are indented too little.

    None of their fields is known where they are, but all of them fit a list in the previous entry.
    """
    listed = {
        location[:-1] for location in unknown if len(location) > 2 and isinstance(location[-2], int)
    }
    for location in sorted(listed, key=str):
        *parents, index = location
        line, names = locate(node, location)[0], tuple(_names_at(node, location))
        for owner, field in _model_beside(model, (*location, "")).model_fields.items():
            inner = next(_models_in(field.annotation), None)
            before = _at(node, (*parents, int(index) - 1, owner))
            if (
                inner
                and {*names} <= {*inner.model_fields}
                and isinstance(before, yaml.SequenceNode)
            ):
                like = before.value[-1].start_mark.line + 1
                yield _Dedented(location, line, names, owner, like)


def _names_at(node: yaml.Node, location: Location) -> list[str]:
    found = _at(node, location)
    return [key.value for key, _ in found.value] if isinstance(found, yaml.MappingNode) else []


def _at(node: yaml.Node, location: Location) -> yaml.Node | None:
    """Return the node at a location, or None."""
    for step in location:
        child = _child(node, step)
        if child is None:
            return None
        node = child[1]
    return node


def _summed(detail: Any) -> Sequence[Location]:
    """Return the fields that cause a fault together; empty if the fault concerns a single field."""
    found: Sequence[Location] = getattr(detail.get("ctx", {}).get("error"), "fields", ())
    return found


def _together(found: Sequence[CurriculumError]) -> CurriculumError:
    first, others = found[0], found[1:]
    if not others:
        return first
    return type(first)(
        first.name, first.value, cause=first.cause, cure=first.cure, lines=[*map(str, others)]
    )


class _Refusal(NamedTuple):
    """A fault that pydantic found in a field."""

    detail: Any
    node: yaml.Node
    model: type[BaseModel]
    missing: Collection[Location]
    """Locations of all required fields that are missing."""

    @property
    def location(self) -> Location:
        found: Location = self.detail["loc"]
        return found

    def error(self, file: str, error: type[CurriculumError]) -> CurriculumError:
        """Return the error for this fault."""
        line, found = locate(self.node, self.location)
        where = f"{file}:{line}"
        field = ".".join(str(step) for step in found) or "the file"
        several = _summed(self.detail)
        if several:
            lines = sorted({locate(self.node, (*self.location, *field))[0] for field in several})
            where, field = f"{file}:{lines[0]}", str(several[0][-1])
            plural = "s" if len(lines) > 1 else ""
            value = f"{field} on line{plural} {', '.join(map(str, lines))}"
        elif self.detail["type"] == "missing":
            value = f"{field} is missing"
        else:
            value = _with_value(field, self.detail["input"])
        if comma := self.detail["type"] == "extra_forbidden" and self._comma():
            value = f"{'.'.join(map(str, comma.location))} = {comma.written}"
        cause, cure = self._cause_and_cure()
        return error(where, value, cause=cause, cure=cure)

    def _cause_and_cure(self) -> tuple[str, str]:
        kind = self.detail["type"]
        if kind == "missing":
            return "this field is required", "Add it"
        if kind == "extra_forbidden":
            return self._unknown_field()
        if kind == "literal_error":
            known = re.findall(r"'([^']*)'", self.detail["ctx"]["expected"])
            return "this value is not allowed", nearest(str(self.detail["input"]), known)
        if kind in _EXPLAINED and self.detail["input"] is None:
            return "the field has no value", "Write a value after its colon"
        if kind in _EXPLAINED:
            cause, cured = _EXPLAINED[kind]
            return cause, cured(self)
        message = str(self.detail["msg"]).removeprefix("Value error, ")
        cause, _, cure = message.partition(". ")
        if (share := self._hundredth()) is not None:
            return cause, f"Write {share}"
        return cause, cure or _CURES.get(kind, "Mend the value")

    def _hundredth(self) -> str | None:
        """Return the share that was probably meant as a percentage (0.6 for 60); None for any other fault.

        >>> detail = {"type": "less_than_equal", "input": 60, "ctx": {"le": 1.0}}
        >>> _Refusal(detail, None, None, ())._hundredth()
        '0.6'
        """
        given, limits = self.detail["input"], self.detail.get("ctx", {})
        is_share = 1 in (limits.get("le"), limits.get("lt"))
        if not is_share or isinstance(given, bool) or not isinstance(given, int | float):
            return None
        return f"{(Decimal(str(given)) / 100).normalize():f}" if 10 <= given <= 100 else None

    def _comma(self) -> "_Comma | None":
        return _decimal_comma(self.node, self.location)

    def _unknown_field(self) -> tuple[str, str]:
        if (comma := self._comma()) is not None:
            return (
                "a comma separates fields, so it ends the number",
                f"Write a decimal point: {comma.number}",
            )
        name = str(self.location[-1])
        head, colon, rest = name.partition(":")
        fields = _model_beside(self.model, self.location).model_fields
        if colon and rest and self.detail["input"] is None and head in fields:
            return "a colon needs a space after it", f"Write {head}: {rest}"
        likely = _likely_field(self.model, self.location)
        is_lacking = (*self.location[:-1], likely) in self.missing
        inside = (
            each
            for each, field in fields.items()
            if any(name in inner.model_fields for inner in _models_in(field.annotation))
        )
        if not is_lacking and (owner := next(inside, None)):
            return "unknown field", f"It is a field of {owner}: move it there"
        meant = (
            f"Did you mean {likely!r}?" if likely else f"Available: {', '.join(fields) or 'none'}"
        )
        return "unknown field", meant

    def number(self) -> str:
        """Return the hint for a value that should be a number. It names the likely number if that is clear.

        >>> def cure(kind, given):
        ...     return _Refusal({"type": kind, "input": given}, None, None, ()).number()
        >>> cure("float_type", "0,5"), cure("float_type", "50%"), cure("float_type", "half")
        ('Write 0.5', 'Write 0.5', 'Write a number')
        >>> cure("int_type", "512"), cure("int_type", "1.5")
        ('Write 512', 'Write a whole number')
        """
        given, is_whole = self.detail["input"], self.detail["type"].startswith("int")
        match = _DECIMAL.fullmatch(given if isinstance(given, str) else json.dumps(given))
        usual = "Write a whole number" if is_whole else "Write a number"
        if match is None or not (match[1] or match[2]):
            return usual
        number = Decimal(f"{match[1] or 0}.{match[2] or 0}") / (100 if match[3] else 1)
        if is_whole and number != number.to_integral_value():
            return usual
        return f"Write {number.normalize():f}"

    def listed(self) -> str:
        """Return the hint for a value that should be a list: write a list with this value."""
        value = self.detail["input"]
        if isinstance(value, str | int | float):
            return f"Write a list: [{_flow(value)}]"
        return "Write a list, with each entry on its own line after `- `"

    def fields(self) -> str:
        """Return the hint for a value that should be a mapping: write the value under its likely field."""
        value = self.detail["input"]
        model = _model_beside(self.model, (*self.location, ""))
        names = [name for name, spec in model.model_fields.items() if spec.is_required()]
        if isinstance(value, str):
            names = (
                ["path"] if "/" in value and "path" in model.model_fields else [*model.model_fields]
            )
        if model is _model_beside(self.model, self.location) or not names:
            return "Write fields, for example {name: value}"
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            return f"Write fields, for example {{{names[0]}: …}}"
        return f"Write {{{names[0]}: {_flow(value)}}}"

    def characters(self) -> str:
        """Return the hint for a name that contains characters which names can't have."""
        value = re.sub(r"[^A-Za-z0-9._-]+", "-", str(self.detail["input"])).strip("._-")
        if re.fullmatch(self.detail["ctx"]["pattern"], value):
            return f"Write {value}"
        return "Use letters, digits, dots, dashes and underscores"


_EXPLAINED: Mapping[str, tuple[str, Callable[[_Refusal], str]]] = MappingProxyType(
    dict.fromkeys(("float_type", "float_parsing"), ("it is not a number", _Refusal.number))
    | dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float"),
        ("it is not a whole number", _Refusal.number),
    )
    | dict.fromkeys(
        ("bool_type", "bool_parsing"), ("it is not a boolean", lambda _: "Write true or false")
    )
    | dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type"),
        ("it is not a mapping of fields", _Refusal.fields),
    )
    | {
        "tuple_type": ("it is not a list", _Refusal.listed),
        "string_type": ("it is not a text", lambda _: "Put it in quotes"),
        "string_pattern_mismatch": (
            "it has characters that a name can't have",
            _Refusal.characters,
        ),
    }
)
"""Causes and hints for faults that pydantic would describe in terms of Python."""
_CURES = {
    "finite_number": "Write a finite number",
    "too_short": "List at least one",
    "greater_than": "Raise it",
    "greater_than_equal": "Raise it",
    "less_than": "Lower it",
    "less_than_equal": "Lower it",
    "multiple_of": "Round it",
}
"""Hints for other faults of pydantic, by type."""
_DECIMAL = re.compile(r"\s*+([-+]?[0-9]*+)[.,]?([0-9]*+)\s*+(%?)\s*+")


def _likely_field(model: type[BaseModel], location: Location) -> str:
    """Return the field that an unknown name probably means; "" if no field is similar."""
    name, beside = str(location[-1]), _model_beside(model, location)
    fields = list(beside.model_fields)
    if name in fields:
        return ""
    other_name = getattr(beside, "OTHER_NAMES", {}).get(name.lower())
    return str(other_name or next(iter(_likely(name, fields)), ""))


class _Comma(NamedTuple):
    """A number with a decimal comma, which YAML splits in two."""

    location: Location
    written: str
    number: str


def _decimal_comma(node: yaml.Node, location: Location) -> _Comma | None:
    """Return the number that `{share: 0,6}` means, or None for other text.

    YAML reads this text as a share of 0 and a field named 6.
    """
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
    return _Comma((*parents, name), f"{whole},{last}", f"{name}: {whole}.{last}")


def _model_beside(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """Return the model that has the field at the end of a location."""
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
    """Return a field with its value as text; leave out the value of a long list or mapping."""
    text = _flow(value) if isinstance(value, dict | list | tuple) else _scalar(value)
    if len(text) <= 60:
        return f"{field} = {text}"
    return field if isinstance(value, dict | list | tuple) else f"{field} = {text[:57]}…"


def _scalar(value: object) -> str:
    return "nothing" if value is None else repr(value) if isinstance(value, str) else _flow(value)


def _flow(value: object) -> str:
    """Return a value as YAML on one line.

    >>> _flow({"family": "v2_simple", "share": 0.5, "domains": [None, True]})
    '{family: v2_simple, share: 0.5, domains: [null, true]}'
    """
    match value:
        case dict():
            return f"{{{', '.join(f'{name}: {_flow(inner)}' for name, inner in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(_flow, value))}]"
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
    return str(value)
