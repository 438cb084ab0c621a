"""The README and the documents can't lie: their commands run, their blocks load."""

import itertools
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest
import typer.main
import yaml
from typer.core import TyperGroup

from flows.cli import app
from schemas.corpus import ConversationsSpec, DomainsSpec
from schemas.diet import Diet, Trainer
from schemas.errors import DietError
from schemas.text import Strict, parse

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEXT = README.read_text()
TEXTS = {file: file.read_text() for file in (README, *sorted((ROOT / "docs").glob("*.md")))}
MINUTES = ("curriculum leakcheck --model tiny --dtype float32",)
"""Commands of minutes: tests/flows/test_leakcheck.py gives this one a smaller model by default."""


class Pieces(Strict):
    """The part of a corpus file that the README shows."""

    conversations: tuple[ConversationsSpec, ...]


def blocks(language: str) -> list[str]:
    """The blocks of the README and the documents; those that are the same once."""
    found = (
        re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL) for text in TEXTS.values()
    )
    return list(dict.fromkeys(itertools.chain.from_iterable(found)))


def commands() -> list[str]:
    """The commands of the README and the documents; those that are the same once."""
    lines = itertools.chain.from_iterable(block.splitlines() for block in blocks("sh"))
    return list(dict.fromkeys(line.partition(" #")[0].strip() for line in lines if line.strip()))


def test_the_readme_is_read_in_a_few_minutes() -> None:
    assert TEXT.count("\n") <= 200


def test_every_command_of_the_command_line_is_named() -> None:
    named = re.findall(
        r"^## curriculum (\S+)", (ROOT / "docs" / "cli.md").read_text(), re.MULTILINE
    )
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    assert {*named} == {*group.commands}


@pytest.mark.parametrize("command", [each for each in commands() if each.startswith("make")])
def test_make_commands_are_targets(command: str) -> None:
    done = subprocess.run(
        ["make", "--dry-run", *shlex.split(command)[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [each for each in commands() if each.startswith("curriculum")])
def test_commands_are_accepted_with_their_options(command: str) -> None:
    accept(*shlex.split(command)[1:])


def test_a_command_with_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(Exception, match="--phases-file"):
        accept("diff", "templates", "testing", "--phases-file")


def accept(*words: str) -> None:
    """Parse a command line without running it."""
    found = typer.main.get_command(app)
    context = found.make_context("curriculum", [*words])
    while isinstance(found, TyperGroup):
        name, command, rest = found.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert command is not None
        found, context = command, command.make_context(name, rest, parent=context)


@pytest.mark.system
def test_commands_run_as_printed(
    demo_home: Path, sample_clone: Path, tmp_path: Path, curriculum: str
) -> None:
    """In a folder with a copy of the demo's workspace; only the clone's path is ours."""
    shutil.copytree(demo_home, tmp_path / "workspace")
    ran = 0
    for command in commands():
        if not command.startswith("curriculum ") or command in MINUTES:
            continue
        run_as_printed(command.replace("~/src/leveldb", str(sample_clone)), tmp_path, curriculum)
        ran += 1
    assert ran > 8


@pytest.mark.slow
@pytest.mark.parametrize("command", MINUTES)
def test_commands_of_minutes_run_as_printed(command: str, tmp_path: Path, curriculum: str) -> None:
    assert command in commands()
    run_as_printed(command, tmp_path, curriculum)


def run_as_printed(command: str, folder: Path, curriculum: str) -> None:
    words = shlex.split(command)
    done = subprocess.run(
        [curriculum, *words[1:]], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_the_sql_runs_in_plain_duckdb(demo_home: Path) -> None:
    (sql,) = {each for each in blocks("sql") if "read_parquet" in each}
    with duckdb.connect() as connection:
        rows = connection.execute(sql.replace("workspace/", f"{demo_home}/")).fetchall()
    assert len(rows) >= 3


def test_the_diets_load() -> None:
    texts = [each for each in blocks("yaml") if "specialist:" in each]
    diets = [parse(Diet, text, file="README.md", error=DietError) for text in texts]
    phases = [[phase.phase for phase in diet.phases] for diet in diets]
    assert phases == [["syntax"], ["syntax", "file_graph"]]


def test_the_trainer_loads() -> None:
    (text,) = (each for each in blocks("yaml") if each.startswith("trainer:"))
    trainer = Trainer.model_validate(yaml.safe_load(text)["trainer"])
    assert trainer.command.endswith("my_train.py {job}")


def test_the_conversations_load() -> None:
    (text,) = (each for each in blocks("yaml") if "conversations:" in each)
    corpus = parse(Pieces, text, file="README.md", error=DietError)
    assert [each.name for each in corpus.conversations] == ["talks"]


def test_the_rules_of_domains_load() -> None:
    (text,) = (each for each in blocks("yaml") if "rules:" in each)
    rules = parse(DomainsSpec, text, file="README.md", error=DietError)
    assert [each.domain for each in rules.rules] == ["testing", "kernels"]


def test_no_block_of_yaml_is_left_out() -> None:
    tested = ("specialist:", "trainer:", "conversations:", "rules:")
    assert [each for each in blocks("yaml") if not any(word in each for word in tested)] == []


def test_links_lead_to_files() -> None:
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', TEXT)
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", TEXT) + pictures
    assert pictures
    assert [link for link in links if not (ROOT / link).exists()] == []
