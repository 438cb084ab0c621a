"""The documents can't lie: tables and pictures are generated, and links lead to files."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.reference import GENERATED

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
MAIN_PATH = (
    "flows/run.py",
    "curriculum/pipeline/execute.py",
    "curriculum/stages/stage.py",
    "curriculum/stages/rows.py",
    "curriculum/packing/boundaries.py",
    "schemas/packed_row.py",
    "curriculum/mixing/mix.py",
    "curriculum/train/trainer.py",
)
ROUND = 50
"""Lines are counted to so many, so that few edits change the table."""


def main_path() -> str:
    """A line a file: its path, the first line of its docstring, and about how many lines it has."""
    lines = ["| file | what it is | lines |", "|---|---|---|"]
    for name in MAIN_PATH:
        text = (ROOT / name).read_text()
        said = (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]
        about = max(ROUND, ROUND * round(text.count("\n") / ROUND))
        lines.append(f"| [{name}](../{name}) | {said} | {about} |")
    return "\n".join(lines)


def layers() -> str:
    """The layers of import-linter's contracts: each may import what is right of it."""
    lines = []
    for contract in _contracts():
        (container,) = contract.get("containers") or ["packages"]
        groups = (_group(each.split(" | ")) for each in contract["layers"])
        lines.append(f"- **{container}**: {' → '.join(groups)}")
    return "\n".join(lines)


def _group(names: list[str]) -> str:
    return ", ".join(f"`{each}`" for each in names)


def _contracts() -> list[dict[str, Any]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = config["tool"]["importlinter"]["contracts"]
    return [each for each in contracts if each["type"] == "layers"]


PARTS = {**GENERATED, "docs/architecture.md": {"main path": main_path, "layers": layers}}


@pytest.mark.parametrize(
    ("file", "name"), [(file, name) for file, parts in PARTS.items() for name in parts]
)
def test_generated_parts_are_current(file: str, name: str, request: pytest.FixtureRequest) -> None:
    made = f"<!-- {name} -->\n\n{PARTS[file][name]()}\n\n<!-- end -->"
    document = ROOT / file
    text = document.read_text()
    found = re.search(rf"<!-- {name} -->.*?<!-- end -->", text, flags=re.DOTALL)
    assert found
    if request.config.getoption("--rewrite"):
        document.write_text(text.replace(found[0], made))
    else:
        assert found[0] == made, "run: pytest tests/test_docs.py --rewrite"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.name)
def test_links_lead_to_files(document: Path) -> None:
    text = document.read_text()
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', text)
    links = [*re.findall(r"\]\((?!https?://)([^)#]+)\)", text), *pictures]
    assert [each for each in links if not (document.parent / each).exists()] == []


def test_documents_are_linked_from_the_index() -> None:
    links = set(re.findall(r"\]\(([^)#/]+)\)", (ROOT / "docs" / "index.md").read_text()))
    assert links == {each.name for each in DOCUMENTS} - {"index.md"}


def test_the_main_path_is_read_in_one_sitting() -> None:
    assert sum((ROOT / name).read_text().count("\n") for name in MAIN_PATH) < 2_000


def test_twelve_changes_have_their_files() -> None:
    text = (ROOT / "docs" / "contributing.md").read_text()
    table = text.partition("## Where do I change")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| ", table, flags=re.MULTILINE)) == 1 + 12
