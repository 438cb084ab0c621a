"""Every block of code in the README and the documents is run, or parsed where it says why it can't be run.

`sh`: one command a line; they run in a copy of the demo's workspace. `console`: commands behind `$ `, which
run one after another in an empty folder, and what they print; `…` stands for whatever differs. A block of
Python whose first line names a file, `# my_model.py`, is in that folder under this name. A comment of
HTML above a block of shell, `<!-- not run: <reason> -->`, which no page shows, has its commands parsed alone.
"""

import ast
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import duckdb
import jsonschema
import pytest
import typer.main
import yaml
from pydantic import BaseModel
from typer.core import TyperGroup

from dashboards.questions import recipes
from flows.cli import app
from schemas.ablation import AblationSpec
from schemas.corpus import ConversationsSpec, CorpusSpec, DomainsSpec
from schemas.diet import AskedBackend, Diet, ExternalTrainer, PhasesSpec
from schemas.errors import DietError
from schemas.study import Study
from schemas.text import Strict, parse
from tests.flows.cli_runner import curriculum as in_process

ROOT = Path(__file__).parents[1]
FILES = (
    *(ROOT / name for name in ("README.md", "SECURITY.md", "benchmarks/results/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)
FENCE = re.compile(r"^( *)(`{3,}|~{3,})(\w*)[^\n]*\n(.*?)^\1\2`*$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"^<!-- not run: (?P<reason>[^\n]+) -->\n\n?\Z", re.MULTILINE)
FEW = 15
APART = {"run", "serve", "shell"}
"""Commands that need a process of their own: for Prefect's settings, or since DuckDB takes their place."""
MINUTES = {"curriculum leakcheck --model tiny --dtype float32"}
"""Commands of minutes: tests/flows/test_leakcheck.py gives this one a smaller model by default."""


class Conversations(Strict):
    """The part of a corpus file that the documents show."""

    conversations: tuple[ConversationsSpec, ...]


class TrainerOfDiet(Strict):
    """The part of a diet that the documents show."""

    trainer: ExternalTrainer


class StudyOfDiet(Strict):
    """The part of a diet that is for comparisons only."""

    study: Study


class AttentionOfDiet(Strict):
    """The part of a diet that says how attention is computed."""

    backend: AskedBackend
    softcap: float


YAML: dict[str, type[BaseModel]] = {
    "claims": AblationSpec,
    "specialist": Diet,
    "trainer": TrainerOfDiet,
    "study": StudyOfDiet,
    "backend": AttentionOfDiet,
    "conversations": Conversations,
    "repositories": CorpusSpec,
    "rules": DomainsSpec,
    "phases": PhasesSpec,
}
"""Kind of a YAML block, by the first of these keys in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A block of code between two fences."""

    place: str
    language: str
    text: str
    reason: str | None
    """The reason why it isn't run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A line of a block of shell."""

    place: str
    text: str
    reason: str | None
    """The reason why it isn't run."""


def blocks(*languages: str) -> list[Block]:
    """The blocks in these languages, or in any; those that are the same once."""
    found: dict[str, Block] = {}
    for file in FILES:
        text = file.read_text()
        for match in FENCE.finditer(text):
            line = 1 + text.count("\n", 0, match.start())
            place = f"{file.relative_to(ROOT)}:{line}"
            why = NOT_RUN.search(text, 0, match.start())
            reason = why["reason"] if why else None
            block = Block(place=place, language=match[3], text=match[4], reason=reason)
            if not languages or block.language in languages:
                found.setdefault(block.text, block)
    return list(found.values())


def commands() -> list[Command]:
    """The commands of the blocks of shell; those that are the same once."""
    found: dict[str, Command] = {}
    for block in blocks("sh", "bash"):
        for line in block.text.replace("\\\n", " ").splitlines():
            text = line.partition(" #")[0].strip()
            if text and not text.startswith("#"):
                found.setdefault(text, Command(place=block.place, text=text, reason=block.reason))
    return list(found.values())


def _named(each: Block | Command) -> str:
    return each.place


def _checked(text: str) -> bool:
    """True if a command is run, or tried without being run, by a test."""
    return text.startswith(("curriculum ", "make "))


def test_every_block_is_in_a_language_that_is_checked() -> None:
    checked = {"sh", "bash", "console", "sql", "python", "yaml", "text"}
    assert [each for each in blocks() if each.language not in checked] == []
    assert {each.language for each in blocks()} >= {"sh", "sql", "python", "yaml"}


def test_no_block_is_made_by_indenting() -> None:
    indented = re.compile(r"\n\n {4}(?! |[-*\d])[^\n]*[a-z]")
    assert [str(file) for file in FILES if indented.search(FENCE.sub("", file.read_text()))] == []


def test_commands_that_are_not_run_are_few_and_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    skipped = [each for each in commands() if each.reason]
    with capsys.disabled():
        for each in skipped:
            sys.stdout.write(f"\nnot run: {each.place}: {each.text}: {each.reason}")
    assert 0 < len(skipped) <= FEW
    assert [each for each in commands() if not each.reason and not _checked(each.text)] == []


def test_a_reason_is_read_where_it_is_above_a_block_of_shell_and_stands_nowhere_else() -> None:
    reasons = [each for each in blocks() if each.reason]
    assert {each.language for each in reasons} == {"sh"}
    assert sum(file.read_text().count("not run:") for file in FILES) == len(reasons)


@pytest.mark.parametrize("command", [each for each in commands() if each.reason], ids=_named)
def test_a_command_that_is_not_run_is_parsed(command: Command) -> None:
    done = subprocess.run(
        ["bash", "-n", "-c", command.text], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for part in re.split(r"&&|\||;", command.text):
        words = [each for each in shlex.split(part) if not re.fullmatch(r"[A-Z_]+=.*", each)]
        if words and Path(words[0]).name == "curriculum":
            accept(*words[1:])
            assert in_process(words[1], "--help").returncode == 0
        if words[:1] == ["prefect"]:
            require_options(words[1:])


def require_options(words: list[str]) -> None:
    """Require that a command of Prefect is there and has the options that it is given."""
    words = [each for each in words if each != "--no-prompt"]
    name = list(itertools.takewhile(re.compile(r"[a-z][a-z-]+").fullmatch, words))[:3]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("prefect")), *name, "--help"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    options = [each for each in words if each.startswith("--")]
    assert [each for each in options if each not in done.stdout] == []


@pytest.mark.parametrize(
    "command", [each for each in commands() if each.text.startswith("make ")], ids=_named
)
def test_make_commands_are_targets(command: Command) -> None:
    done = subprocess.run(
        ["make", "--dry-run", *shlex.split(command.text)[1:]],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command", [each for each in commands() if each.text.startswith("curriculum ")], ids=_named
)
def test_commands_are_accepted_with_their_options(command: Command) -> None:
    accept(*shlex.split(command.text)[1:])


def test_a_command_with_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(Exception, match="--phases"):
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
        text = command.text
        if text.startswith("curriculum ") and not command.reason and text not in MINUTES:
            run_as_printed(text.replace("~/src/leveldb", str(sample_clone)), tmp_path, curriculum)
            ran += 1
    assert ran > 30


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(MINUTES))
def test_commands_of_minutes_run_as_printed(command: str, tmp_path: Path, curriculum: str) -> None:
    assert command in {each.text for each in commands()}
    run_as_printed(command, tmp_path, curriculum)


def run_as_printed(command: str, folder: Path, curriculum: str) -> None:
    """Run a command, in this process where it can be: most take no longer than what they import."""
    words = shlex.split(command)[1:]
    done = (
        subprocess.run(
            [curriculum, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        if words[0] in APART
        else in_process(*words, cwd=folder)
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def transcript(block: Block) -> list[tuple[str, list[str]]]:
    """Each command of a console with the lines that it prints."""
    steps: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            steps.append((line.removeprefix("$ "), []))
        elif line.startswith("> "):
            command, printed = steps[-1]
            steps[-1] = (f"{command}\n{line.removeprefix('> ')}", printed)
        elif line.strip():
            steps[-1][1].append(line.strip())
    return steps


def missing(printed: list[str], output: str) -> list[str]:
    """Lines of a console that aren't in the output, in their order; `…` alone stands for any lines."""
    lines, left = iter(output.splitlines()), []
    for line in (each for each in printed if each != "…"):
        pattern = re.compile(r"\s+".join(_pattern(word) for word in line.split()))
        if not any(pattern.search(each) for each in lines):
            left.append(line)
    return left


def _pattern(word: str) -> str:
    return ".*".join(re.escape(part) for part in word.split("…"))


NAMED = re.compile(r"# (\w+\.py)\n")
CONSOLES = sorted({each.place.partition(":")[0] for each in blocks("console")})


@pytest.mark.system
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("file", CONSOLES)
def test_consoles_print_what_they_show(file: str, tmp_path: Path, curriculum: str) -> None:
    """One after another, as somebody types them who has this repository in the folder that documents name."""
    (tmp_path / "curriculum").symlink_to(ROOT)
    path = os.pathsep.join([str(Path(curriculum).parent), os.environ["PATH"]])
    variables = {**os.environ, "PATH": path, "HOME": str(tmp_path), "COLUMNS": "120"}
    for variable in ("CURRICULUM_HOME", "CURRICULUM_TRUST"):
        variables.pop(variable, None)
    here = [each for each in blocks("console", "python") if each.place.startswith(f"{file}:")]
    for block in here:
        if block.language == "python":
            if name := NAMED.match(block.text):
                (tmp_path / name[1]).write_text(block.text)
            continue
        for command, printed in transcript(block):
            done = subprocess.run(
                ["bash", "-e", "-c", command],
                cwd=tmp_path, env=variables, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            assert done.returncode == 0, f"{block.place}: {command}\n{done.stdout}"
            left = missing(printed, done.stdout)
            assert left == [], f"{block.place}: {command}\n{done.stdout}"


def test_a_console_that_shows_what_is_not_printed_is_found() -> None:
    output = "trained syntax in 12 s\nval_bpb  1.20\n"
    assert missing(["trained syntax in … s", "val_bpb 1.…"], output) == []
    assert missing(["…", "trained syntax in … s", "…"], output) == []
    assert missing(["val_bpb 1.…", "trained syntax in … s"], output) == ["trained syntax in … s"]
    assert missing(["val_bpb 2.…"], output) == ["val_bpb 2.…"]


@pytest.mark.parametrize("block", blocks("sql"), ids=_named)
def test_sql_is_one_question(block: Block) -> None:
    (statement,) = duckdb.extract_statements(block.text)
    assert statement.type.name == "SELECT"


def test_sql_runs_in_plain_duckdb(demo_home: Path) -> None:
    """The recipes of the cookbook have tests of their answers."""
    known = {each.sql.strip() for each in recipes()}
    plain = [each for each in blocks("sql") if not any(each.text.strip() in sql for sql in known)]
    assert plain
    for block in plain:
        with duckdb.connect() as connection:
            sql = block.text.replace("workspace/", f"{demo_home}/")
            assert connection.execute(sql).fetchall(), block.place


@pytest.mark.parametrize("block", blocks("python"), ids=_named)
def test_python_is_parsed_and_finds_what_it_imports(block: Block) -> None:
    tree = ast.parse(block.text)
    imports = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    assert imports
    exec(compile(ast.Module(body=[*imports], type_ignores=[]), block.place, "exec"), {})


def _run_alone() -> list[Block]:
    """Blocks of Python that no console beside them runs."""
    typed = {
        (block.place.partition(":")[0], command)
        for block in blocks("console")
        for command, _ in transcript(block)
    }
    return [
        each
        for each in blocks("python")
        if not (name := NAMED.match(each.text))
        or (each.place.partition(":")[0], f"python {name[1]}") not in typed
    ]


@pytest.mark.system
@pytest.mark.parametrize("block", _run_alone(), ids=_named)
def test_python_runs_as_printed(block: Block, demo_home: Path, tmp_path: Path) -> None:
    shutil.copytree(demo_home, tmp_path / "workspace")
    file = tmp_path / "example.py"
    body = "".join(f"    {line}\n" for line in block.text.splitlines())
    file.write_text(f"if __name__ == '__main__':\n{body}")
    done = subprocess.run(
        [sys.executable, file], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{block.place}\n{done.stderr}"


@pytest.mark.parametrize("block", blocks("yaml"), ids=_named)
def test_yaml_is_what_it_shows(block: Block) -> None:
    keys = yaml.safe_load(block.text)
    if "extends" in keys:
        # A part of a diet: the rest is in the one that it extends.
        jsonschema.validate(keys, Diet.model_json_schema())
        return
    model = next((model for key, model in YAML.items() if key in keys), None)
    assert model, f"{block.place}: none of {[*YAML]}"
    parse(model, block.text, file=block.place, error=DietError)
