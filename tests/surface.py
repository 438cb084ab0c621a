"""Print what the product offers, a line each, sorted.

    command            its name
    argument, option   of a command: type, bounds or choices, default
    environment        a variable that is read, and the packages that read it
    deployment         its name, pool and tags
    parameter          of a deployment: type, bounds or choices, default; `!` where it is required
    yaml               field of diets, corpora, phases and domains, the same way

Texts of help are left out, and values that are what is installed (writers of metrics). It is a process of its
own, since forms name what lies in $CURRICULUM_HOME, which is read when they are imported.
"""

import ast
import itertools
import json
import re
import types
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import typer
from prefect.utilities.importtools import import_object

from flows.cli import app
from flows.deployments import declared_deployments
from schemas.json_schema import MODELS, schema_text

ROOT = Path(__file__).parents[1]
PACKAGES = ("schemas", "curriculum", "flows", "dashboards")
INSTALLED = "log"
"""The parameter whose values are what is installed."""
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_*]{2,}")
_OWN = re.compile(r"CURRICULUM_[A-Z_]+")


def commands(command: Any, name: str = "curriculum") -> Iterator[str]:
    """A command with its options and arguments, and those below it."""
    yield f"command {name}"
    for each in command.params:
        yield f"{each.param_type_name} {name} {_parameter(each)}"
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")


def _parameter(given: Any) -> str:
    names = "/".join([*given.opts, *given.secondary_opts])
    bounds = [f"{name}={getattr(given, name)}" for name in ("min", "max") if _has(given, name)]
    said = [f"{names}: {_type(given.type_descriptor.annotation)}", *bounds]
    said += ["required"] * given.required + ["repeated"] * (given.multiple or given.nargs != 1)
    said += [f"hidden={given.hidden}"] * bool(given.hidden) + [f"from ${given.envvar}"] * bool(
        given.envvar
    )
    default = given.default.value if isinstance(given.default, Enum) else given.default
    return " ".join([*said, *([] if given.required else [f"= {json.dumps(default, default=str)}"])])


def _has(given: Any, name: str) -> bool:
    return getattr(given, name, None) is not None


def _type(annotation: Any) -> str:
    """A type by its name, a choice by its values."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "|".join(json.dumps(each.value) for each in annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return "|".join(map(json.dumps, arguments))
    if origin in (typing.Union, types.UnionType):
        return "|".join(map(_type, arguments))
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(_type, arguments))}]"
    return str(getattr(annotation, "__name__", annotation))


def environment() -> Iterator[str]:
    """Variables of the environment, each with the packages that read or name it."""
    found = sorted({each for file in _sources() for each in _named(file)})
    for name, lines in itertools.groupby(found, key=lambda each: each[0]):
        yield f"environment {name}: {', '.join(package for _, package in lines)}"


def _sources() -> Iterator[Path]:
    return (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


def _named(file: Path) -> Iterator[tuple[str, str]]:
    tree = ast.parse(file.read_text())
    package = file.relative_to(ROOT).parts[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and _OWN.fullmatch(str(node.value)):
            yield str(node.value), package
        for name in _read(node):
            if _VARIABLE.fullmatch(name):
                yield name, package


def _read(node: ast.AST) -> Iterator[str]:
    """Names in `environ.get(name)`, `environ[name]`, `name in environ` and `os.getenv(name)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attribute), args=[name, *_]):
            is_read = attribute in ("get", "setdefault", "pop") and "environ" in ast.unparse(value)
            if is_read or attribute == "getenv":
                yield _text(name)
        case ast.Subscript(value=value, slice=name) if "environ" in ast.unparse(value):
            yield _text(name)
        case ast.Compare(left=name, comparators=[value]) if "environ" in ast.unparse(value):
            yield _text(name)


def _text(node: ast.expr) -> str:
    """A string as far as it is written; what is put into it is a star."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(each) if isinstance(each, ast.Constant) else "*" for each in parts)
    return ""


def deployments() -> Iterator[str]:
    """Deployments, and the parameters of their flows."""
    for each in declared_deployments(""):
        yield f"deployment {each.name} in pool {each.pool}, tags {', '.join(each.tags)}"
        schema = import_object(each.entrypoint).parameters.model_dump(exclude_unset=True)
        for line in _fields(schema, schema):
            yield f"parameter {each.name} {line}"


def yaml() -> Iterator[str]:
    """Fields of diets, corpora, phases and domains."""
    for name, model in MODELS:
        schema = json.loads(schema_text(model))
        for line in _fields(schema, schema):
            yield f"yaml {name} {line}"


def _fields(schema: dict[str, Any], whole: dict[str, Any], path: str = "") -> Iterator[str]:
    """Dotted paths of a JSON Schema with types, bounds and defaults."""
    if path:
        default = f" = {json.dumps(schema['default'])}" if "default" in schema else ""
        yield f"{path}: {_said(schema, whole, path)}{default}"
    for each in _alternatives(schema, whole):
        required = each.get("required", ())
        for name, below in each.get("properties", {}).items():
            star = "!" if name in required else ""
            yield from _fields(below, whole, f"{path}.{name}{star}" if path else f"{name}{star}")
        if isinstance(each.get("items"), dict):
            yield from _fields(each["items"], whole, f"{path}[]")
        others = [each.get("additionalProperties"), *each.get("patternProperties", {}).values()]
        for other in others:
            if isinstance(other, dict):
                yield from _fields(other, whole, f"{path}.*" if path else "*")


def _alternatives(schema: dict[str, Any], whole: dict[str, Any]) -> list[dict[str, Any]]:
    """A schema, or those of which it is one; references are followed."""
    if "$ref" in schema:
        _, kind, name = schema["$ref"].split("/")
        return _alternatives(whole[kind][name], whole)
    if "properties" in schema:
        return [schema]  # What else is said says which of them go together.
    one_of = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    return [each for below in one_of for each in _alternatives(below, whole)] or [schema]


def _said(schema: dict[str, Any], whole: dict[str, Any], path: str) -> str:
    said = []
    for each in _alternatives(schema, whole):
        values = [each["const"]] if "const" in each else each.get("enum")
        if values is not None and path.rpartition(".")[2] != INSTALLED:
            said.append("|".join(map(json.dumps, values)))
        else:
            bounds = [f"{name}={each[name]}" for name in BOUNDS if name in each]
            said.append(" ".join([str(each.get("type", "any")), *bounds]))
    return " | ".join(dict.fromkeys(said))


def main() -> None:
    """Print all lines."""
    parts = (commands(typer.main.get_command(app)), environment(), deployments(), yaml())
    print("\n".join(sorted(set(itertools.chain(*parts)))))  # noqa: T201


if __name__ == "__main__":
    main()
