"""Generated parts of the documents: commands, YAML, columns of a row, sizes of models, the cookbook."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
import typer.main
from typer.core import TyperArgument, TyperGroup

from benchmarks import evidence
from curriculum.model.decoder import Decoder
from curriculum.model.presets import PRESETS, model_spec
from dashboards.questions import cookbook
from flows.cli import app
from schemas.packed_row import COLUMNS, PACKED_ROW_SCHEMA, Column
from schemas.structure import STRUCTURE_COLUMNS, STRUCTURE_MEANINGS

ROOT = Path(__file__).parents[1]
SCHEMAS = ("diet", "phases", "corpus", "domains")
VOCABULARIES = (4_096, 32_768)
"""Those of the diet that `init` writes, and of a real corpus."""


def columns() -> str:
    """Write the columns of the packed row as a table."""
    return _columns(PACKED_ROW_SCHEMA, COLUMNS)


def structure() -> str:
    """Write the structure columns as a table."""
    return _columns(pa.schema(STRUCTURE_COLUMNS), STRUCTURE_MEANINGS)


def _columns(schema: pa.Schema, meanings: Sequence[Column]) -> str:
    assert schema.names == [each.name for each in meanings]
    rows = [
        f"| {each.name} | {schema.field(each.name).type} | {each.need} | {each.meaning} |"
        for each in meanings
    ]
    table = "\n".join(["| column | type | needed | meaning |", "|---|---|---|---|", *rows])
    return table.replace(" not null", "").replace("item: ", "")


def command_line() -> str:
    """Write each command with its arguments and options."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return "\n\n".join(_commands("curriculum", group))


def _commands(prefix: str, group: TyperGroup) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, TyperGroup):
            yield from _commands(f"{prefix} {name}", command)
            continue
        lines = [f"## {prefix} {name}", "", _prose(str(command.help))]
        shown = [each for each in command.params if not getattr(each, "hidden", False)]
        if shown:
            lines += ["", "| argument or option | meaning |", "|---|---|"]
            lines += [
                f"| {_spelled(each)} | {_table_cell(getattr(each, 'help', ''))} |" for each in shown
            ]
        yield "\n".join(lines)


def presets() -> str:
    """Write the sizes of models, with their weights over two vocabularies."""
    lines = [
        f"| model | {' | '.join(f'weights, {ids:,} ids' for ids in VOCABULARIES)} | blocks | "
        "width, feed-forward | heads, key-value heads | streams |",
        f"|{'---|' * (len(VOCABULARIES) + 5)}",
    ]
    for name, size in PRESETS.items():
        weights = " | ".join(f"{_weights(name, ids) / 1e6:,.1f} M" for ids in VOCABULARIES)
        lines.append(
            f"| {name} | {weights} | {_pattern(size.blocks)} | {size.width:,}, {size.mlp_width:,} | "
            f"{size.heads}, {size.kv_heads} | {size.streams} |"
        )
    return "\n".join(lines)


def rates() -> str:
    """Write the rate and the step that come with each size."""
    lines = ["| models | rate | tokens a step | steps of warm-up |", "|---|---|---|---|"]
    alike: dict[tuple[float, int, int], list[str]] = {}
    for name, size in PRESETS.items():
        step = (size.learning_rate, size.tokens_per_step, size.warmup_steps)
        alike.setdefault(step, []).append(name)
    lines += [
        f"| {', '.join(names)} | {rate:g} | {tokens:,} | {warmup:,} |"
        for (rate, tokens, warmup), names in alike.items()
    ]
    return "\n".join(lines)


def _weights(name: str, ids: int) -> int:
    with torch.device("meta"):
        model = Decoder(model_spec(name, ids), "documents")
    return sum(each.numel() for each in model.parameters())


def _pattern(blocks: str) -> str:
    """Write repeated blocks once: EMFMFMFMF -> E (MF) × 4."""
    found = re.fullmatch(r"(.*?)((..+?)\3+)", blocks)
    if found is None:
        return blocks
    return f"{found[1]} ({found[3]}) × {len(found[2]) // len(found[3])}".strip()


def _prose(text: str) -> str:
    return "\n".join(line.strip() for line in text.replace("\b", "").strip().splitlines())


def _spelled(parameter: Any) -> str:
    if isinstance(parameter, TyperArgument):
        return f"`{parameter.name.upper()}`"
    return " ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))


def fields() -> str:
    """Write the fields of diets, phases, corpora and domains."""
    return "\n\n".join(_schema(name) for name in SCHEMAS)


def _schema(name: str) -> str:
    schema = json.loads((ROOT / "schemas" / "json" / f"{name}.schema.json").read_text())
    about = schema.get("description", "")
    parts = [
        _object(f"## {name}", schema)
        if "properties" in schema
        else f"## {name}\n\nA {_type(schema)}. {about}".strip()
    ]
    for title, each in schema.get("$defs", {}).items():
        if "properties" in each:
            parts.append(_object(f"### {title}", each))
    return "\n\n".join(parts)


def _object(heading: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", [])
    lines = [heading, "", schema.get("description", ""), ""]
    lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name, each in schema["properties"].items():
        default = "needed" if name in required else _default(each.get("default"))
        lines.append(
            f"| {name} | {_type(each)} | {default} | {_table_cell(each.get('description'))} |"
        )
    return "\n".join(lines)


def _default(value: object) -> str:
    return "" if value in (None, "", [], {}) else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " \\| ".join(str(each) for each in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if either := schema.get("anyOf", schema.get("oneOf")):
        names = [_type(each) for each in either if each.get("type") != "null"]
        return " \\| ".join(dict.fromkeys(names))
    if schema.get("type") == "array" and "items" in schema:
        return f"list of {_type(schema['items'])}"
    return str(schema.get("type", "any"))


def _table_cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


GENERATED: dict[str, dict[str, Callable[[], str]]] = {
    "docs/concepts.md": {"columns": columns, "structure": structure},
    "docs/cli.md": {"commands": command_line},
    "docs/training.md": {"presets": presets, "rates": rates},
    "docs/yaml.md": {"fields": fields},
    "docs/cookbook.md": {"cookbook": cookbook},
    "docs/evidence.md": {
        folder.name: partial(evidence.section, folder) for folder in evidence.committed()
    },
}
"""Generators by document and name of the part, between `<!-- name -->` and `<!-- end -->`."""
