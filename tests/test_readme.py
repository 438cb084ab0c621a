"""The README is short, its pictures are there, and the reference of commands is complete."""

import re
from pathlib import Path

import typer.main
from typer.core import TyperGroup

from flows.cli import app

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()


def test_the_readme_is_read_in_a_few_minutes() -> None:
    assert TEXT.count("\n") <= 200


def test_every_command_of_the_command_line_is_named() -> None:
    named = re.findall(
        r"^## curriculum (\S+)", (ROOT / "docs" / "cli.md").read_text(), re.MULTILINE
    )
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    assert {*named} == {*group.commands}


def test_links_lead_to_files() -> None:
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', TEXT)
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", TEXT) + pictures
    assert pictures
    assert [link for link in links if not (ROOT / link).exists()] == []
