"""A hostile repository through build, report, pages and every command: nothing that is shown obeys it."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page
from typer.testing import CliRunner

from curriculum.corpus.sources import resolve
from curriculum.pipeline.references import checkpoint_of
from curriculum.store import Artefact, Store
from flows import cli
from schemas.corpus import RepositorySpec
from schemas.errors import CurriculumError
from schemas.visible import visible
from tests.flows.cli_runner import curriculum
from tests.flows.hostile_repository import (
    BIDI,
    BRANCH,
    CORPUS,
    DIET,
    PATHS,
    RICH,
    TERMINAL,
    raw_controls,
    repository,
)
from tests.flows.html_text import Read
from tests.flows.serving import serving
from tests.flows.terminal import LIVE, on_terminal

pytestmark = pytest.mark.system


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A workspace that was made of a repository, and what the commands that made it printed."""

    home: Path
    diet: Path
    corpus: Path
    said: str

    def artefacts(self, stage: str) -> list[Artefact]:
        return [*Store(self.home, dry=True).artefacts(stage)]


def _build(folder: Path, *, hostile: bool) -> Made:
    source = repository(folder / "source", hostile=hostile)
    diet, corpus = folder / "tiny.yaml", folder / "mine.yaml"
    diet.write_text(DIET)
    corpus.write_text(CORPUS.format(path=source))
    said = ""
    for words in (("build", str(diet)), ("train", str(diet)), ("report", "tiny")):
        done = curriculum(*words, home=folder / "home", variables={"COLUMNS": "150"})
        said += done.stdout + done.stderr
        assert done.returncode == 0, said
    return Made(home=folder / "home", diet=diet, corpus=corpus, said=said)


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The workspace of the hostile repository, trained for a step a phase."""
    return _build(tmp_path_factory.mktemp("evil"), hostile=True)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The workspace of its innocent twin."""
    return _build(tmp_path_factory.mktemp("good"), hostile=False)


NO_TEXT = {
    "ablate": "it trains as run does, and shows figures of arms whose names are its user's",
    "dashboard": "it prints an address; tests of dashboards try its pages with text of a repository",
    "leakcheck": "it names row lengths, claims and places, and nothing of a repository",
    "init": "it writes the files of the package, and reads no repository",
    "shell": "DuckDB's own program takes its place, and writes to the terminal by rules of its own",
}
"""Commands that show no text of a repository."""


TRIED = (
    "approve", "build", "check", "compare", "diet check", "diff", "export", "gc", "import",
    "inspect", "lineage", "ls", "merge", "mix", "query", "report", "status", "supply", "tokenizer train",
    "train", "trust",
)  # fmt: skip
ON_TERMINAL = ("demo", "generate", "query", "run")
"""Commands that show foreign text on a terminal; model output and CSV go to pipes unchanged."""
SERVED = ("serve",)


@pytest.fixture(scope="module")
def aside(evil: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what commands write, with a copy of the hostile workspace, as one that was sent."""
    folder = tmp_path_factory.mktemp("aside")
    shutil.copytree(evil.home, folder / "home")
    says = json.dumps({"command": f"true {TERMINAL}{BIDI}{RICH} {{job}}"})
    diets = folder / "home" / "diets"
    diets.mkdir()
    for name in ("mine", f"[bold]{BIDI}"):
        (diets / f"{name}.yaml").write_text(f"{DIET}trainer: {says}\n")
    (folder / "home" / "corpora").mkdir()
    shutil.copyfile(evil.corpus, folder / "home" / "corpora" / "mine.yaml")
    return folder


def _invocations(made: Made, aside: Path) -> dict[str, list[list[str]]]:
    """All ways to look at a workspace, by command, and those that write, to a copy or beside it."""
    keys = {
        stage: [each.key[:12] for each in made.artefacts(stage)]
        for stage in ("documents", "rows", "tokens", "selections", "tokenizers", "mixtures", "runs")
    }
    every = [key for stage in keys.values() for key in stage]
    looked = [["inspect", key] for key in every]
    copy = ["--home", str(aside / "home")]
    run = next(each for each in made.artefacts("runs"))
    checkpoint = checkpoint_of(run.path, str(run.path))
    diet = str(made.diet)
    questions = [
        "SELECT provenance, repository, text FROM documents", "FROM documents LIMIT 99",
        "SELECT * FROM runs", "SELECT nothing FROM documents WHERE text = 'a\x1b[31m\u202e'",
        "SELECT 1 AS \"a\x1b[31m\u202e\"",
    ]  # fmt: skip
    return {
        "query": [
            ["query", sql, *form]
            for sql in questions
            for form in ([], ["--json"], ["--format", "json"], ["--format", "table"])
        ],
        "inspect": [
            *looked,
            *([*each, "--full"] for each in looked),
            *([*each, "--json"] for each in looked),
            *(["inspect", stage, "--list"] for stage in ("documents", "rows")),
            *(["inspect", stage, "--list", "--json"] for stage in ("documents",)),
            *(["inspect", key, "--path", f"*{PATHS[9][5:]}"] for key in keys["documents"][:1]),
            *(["inspect", key, "--path", "nothing\x1b[31m\u202e"] for key in keys["documents"][:1]),
            ["inspect", str(checkpoint)],
            ["inspect", "tiny/syntax"],
            ["inspect", "nothing\x1b]0;t\x07\u202e"],
        ],
        "lineage": [
            ["lineage", "tiny/syntax", "--step", "1"],
            ["lineage", "tiny/syntax", "--step", "1", "--json"],
            ["lineage", "tiny/syntax"],
            ["lineage", "theirs"],
            ["lineage", PATHS[9]],
        ],
        "ls": [["ls"], ["ls", "--json"], ["ls", *copy], ["ls", "--json", *copy]],
        "supply": [["supply", diet]],
        "gc": [["gc", "--yes"]],
        "status": [["status"], ["status", "--all"], ["status", "--json"]],
        "report": [["report"], ["report", "tiny"], ["report", "nobody\x1b[31m\u202e"]],
        "check": [["check", str(made.home / stage)] for stage in ("documents", "rows", "mixtures")],
        "diff": [
            ["diff", *keys["mixtures"][:2]], ["diff", *keys["rows"][:2], "--full"],
            ["diff", diet, diet],
        ],
        "compare": [["compare", "tiny/syntax", "tiny/file_graph", *more] for more in ([], ["--json"])],
        "build": [["build", diet, "--dry-run"], ["build", diet, "--explain"]],
        "mix": [["mix", diet], ["mix", diet, "--explain"]],
        "train": [["train", diet, "--dry-run"]],
        "tokenizer train": [["tokenizer", "train", diet]],
        "diet check": [["diet", "check", diet], ["diet", "check", diet, "--json"]],
        "approve": [
            ["approve", diet, "syntax", "--comment", f"{TERMINAL}{BIDI}", *copy],
            ["status", *copy], ["status", "--json", *copy],
        ],
        "export": [
            ["export", what, "--to", str(aside / f"{what.partition('/')[0]}.{form}"), "--format", form]
            for what, form in (
                ("tiny/syntax", "curriculum"), ("tiny/syntax", "hf"), ("tiny/syntax", "huggingface"),
                *((keys["rows"][0], each) for each in ("flat", "megatron", "huggingface")),
                (keys["documents"][0], "flat"), ("nothing\x1b[31m\u202e", "flat"),
            )
        ],
        "import": [
            *(
                ["import", str(aside / f"{keys['rows'][0]}.{form}"), "--format", named, *copy]
                for form, named in (("flat", "flat"), ("megatron", "megatron"), ("huggingface", "parquet"))
            ),
            ["import", str(aside / f"{keys['documents'][0]}.flat"), "--format", "flat", *copy],
            ["import", str(made.home / "documents"), *copy],
            ["import", str(aside / "nothing\x1b[31m\u202e"), "--name", "n\u202e", *copy],
        ],
        "merge": [["merge", str(made.home), "--home", str(aside / "merged")]],
        "trust": [["trust", str(aside / "home")], ["trust", "--list"]],
    }  # fmt: skip


def test_every_listed_command_has_its_ways_to_be_called(evil: Made, aside: Path) -> None:
    assert {*_invocations(evil, aside)} == {*TRIED}
    assert {*_on_terminal(evil, aside)} == {*ON_TERMINAL}


@pytest.mark.parametrize("command", TRIED)
def test_no_command_sends_what_a_repository_holds_to_the_terminal(
    evil: Made, aside: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_HOME", str(evil.home))
    ended = []
    for words in _invocations(evil, aside)[command]:
        done = CliRunner().invoke(cli.app, words)
        assert raw_controls(done.output) == [], f"{words}: {done.output!r}"
        assert done.exit_code in (0, 1, 2), f"{words}: {done.output} {done.exception!r}"
        assert not isinstance(done.exception, Exception) or done.exit_code != 1, repr(
            done.exception
        )
        ended.append(done.exit_code)
        if "--json" in words and done.exit_code == 0 and words[0] != "query":
            json.loads(done.stdout)
    assert 0 in ended, "no way to give the command shows anything"


def _on_terminal(made: Made, aside: Path) -> dict[str, list[tuple[int, list[str]]]]:
    """Ways to call a command on a terminal, with the exit code that each ends in."""
    diet, sql = str(made.diet), "SELECT provenance, text FROM documents"
    prompt = aside / "prompt.txt"
    prompt.write_text(f"// {TERMINAL}{BIDI}{RICH}")
    return {
        # What it reads can't be changed by an option: so many paths that are no text are refused.
        "demo": [(2, ["demo", "--repo", str(made.diet.parent / "source"), "--home", str(aside / "demo")])],
        "query": [(0, ["query", sql, "--format", form]) for form in ("csv", "json", "jsonl", "table")],
        "run": [(0, ["run", diet]), (0, ["run", diet, "--explain"])],
        "generate": [(0, ["generate", "tiny/syntax", "--tokens", "60", "--file", str(prompt)])],
    }  # fmt: skip


@pytest.mark.parametrize("command", ON_TERMINAL)
def test_what_a_terminal_is_sent_has_nothing_raw(evil: Made, aside: Path, command: str) -> None:
    for code, words in _on_terminal(evil, aside)[command]:
        done = on_terminal(words, {"CURRICULUM_HOME": str(evil.home)})
        assert done.code == code, f"{words}: {done.sent}"
        assert raw_controls(LIVE.sub("", done.sent)) == [], f"{words}: {done.sent!r}"
        if command in ("query", "generate"):
            assert "\\u202e" in done.sent, "the payload was shown"


def test_what_a_program_sends_to_a_terminal_would_be_seen() -> None:
    """The control: the same terminal, and a program that writes a payload as it is."""
    program = (sys.executable, "-c", "import sys; print(sys.argv[1])")
    done = on_terminal([f"{TERMINAL}{BIDI}"], {}, program)
    found = {*raw_controls(LIVE.sub("", done.sent))}
    assert {"\x1b", "\x07", "\x9b", "\x7f", "\u202e", "\u2066", "\u200b", "\U000e0041"} <= found


def _texts(data: object) -> Iterator[str]:
    """The texts in an artifact, whose tables are JSON."""
    if isinstance(data, str):
        yield data
        data = json.loads(data) if data.startswith("[{") else ()
    for each in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _texts(each)


@pytest.mark.timeout(1200)
def test_a_served_run_logs_and_shows_nothing_raw(aside: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(aside / "home", tmp_path / "home"))
    (home / "diets" / "mine.yaml").write_text(DIET.replace("mine.yaml", "mine"))
    with serving(home) as served:
        with served.client() as client:
            asked = client.read_deployment_by_name("run/run")
            run = client.create_flow_run_from_deployment(
                asked.id, parameters={"specialist": "mine", "phase": "syntax"}
            ).id
        served.await_state(run, "Completed", "Failed", "Crashed")
        assert served.state(run) == "Completed", served.run(run).state
        with served.client() as client:
            logs, shown = client.read_logs(), client.read_artifacts()
    assert len(logs) > 10
    assert shown
    for said in (*(each.message for each in logs), *_texts([each.data for each in shown])):
        assert raw_controls(said) == [], said
    assert raw_controls((home / "serve.txt").read_text()) == []


def test_what_made_the_workspace_printed_nothing_raw(evil: Made, good: Made) -> None:
    assert raw_controls(evil.said) == raw_controls(good.said) == []


def test_the_scan_of_these_tests_sees_what_it_looks_for(evil: Made) -> None:
    """The control: the payloads are in the workspace, and reach whoever reads the files themselves."""
    texts = [
        line["text"]
        for each in evil.artefacts("documents")
        for file in each.shards()
        for line in pq.read_table(file, columns=["text"]).to_pylist()
    ]
    found = {letter for text in texts for letter in raw_controls(text)}
    assert {"\x1b", "\x07", "\x9b", "\x7f", "\u202e", "\u2066", "\u200b", "\U000e0041"} <= found
    provenance = {
        each["path"]
        for artefact in evil.artefacts("documents")
        for file in artefact.shards()
        for line in pq.read_table(file, columns=["provenance"]).to_pylist()
        for each in line["provenance"]
    }
    assert {*PATHS} - provenance == set()


def _pages(made: Made, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """All pages of a workspace: reports, rows, and what inspect writes of documents and rows."""
    monkeypatch.setenv("CURRICULUM_HOME", str(made.home))
    found = {file.name: file.read_text() for file in (made.home / "reports").glob("*.html")}
    held = [*(made.home / "reports" / "rows").glob("*.html")]
    found |= {f"row {number}": file.read_text() for number, file in enumerate(sorted(held))}
    for stage in ("documents", "rows"):
        for number, each in enumerate(made.artefacts(stage)):
            file = folder / f"{stage}{number}.html"
            done = CliRunner().invoke(
                cli.app, ["inspect", each.key[:12], "--rows", "30", "--html", str(file)]
            )
            if done.exit_code == 0:
                found[file.stem] = file.read_text()
    return found


def test_no_page_has_an_element_or_attribute_of_a_repository(
    evil: Made, good: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "evil", tmp_path / "good"]
    for folder in folders:
        folder.mkdir()
    evil_pages, good_pages = (
        _pages(made, folder, monkeypatch)
        for made, folder in zip((evil, good), folders, strict=True)
    )
    known = [Read(text) for text in good_pages.values()]
    tags = {tag for read in known for tag in read.tags}
    attributes = {name for read in known for name, _ in read.attributes}
    assert len(evil_pages) > 8
    assert "script" in tags
    for name, text in evil_pages.items():
        read = Read(text)
        assert raw_controls(text) == [], name
        assert {*read.tags} <= tags, name
        assert {each for each, _ in read.attributes} <= attributes, name
        assert read.tags.count("script") == 2, name
        links = [value for each, value in read.attributes if each in ("href", "src")]
        assert [each for each in links if ":" in each] == [], name
        assert "{{" not in "".join(value for _, value in read.attributes), name
    written = "".join(evil_pages.values())
    for shown in (r"\u202e", r"\x1b[31m", "&lt;script&gt;alert(1)", "[bold red]", r"\U000e0041"):
        assert shown in written


def test_an_error_that_quotes_a_repository_is_escaped(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", hostile=True)
    spec = RepositorySpec(name="theirs", path=str(source), commit="v9\x1b[31m\u202e")
    with pytest.raises(CurriculumError) as refused:
        resolve(spec, cache=tmp_path / "cache")
    assert raw_controls(str(refused.value)) == []
    assert visible(BRANCH) in str(refused.value)
    assert BRANCH in refused.value.cure, "the parts of an error are raw"


@pytest.mark.parametrize("raw", [b"\xff\x80", b"\x1b[31m", "\u202e".encode()])
def test_a_path_that_no_terminal_can_show_is_printed_and_is_json(
    tmp_path: Path, raw: bytes
) -> None:
    home = Path(os.fsdecode(bytes(tmp_path / "home ") + raw))
    home.mkdir()
    done = CliRunner().invoke(cli.app, ["status", "--home", str(home)])
    assert (done.exit_code, raw_controls(done.output)) == (0, [])
    done = CliRunner().invoke(cli.app, ["status", "--home", str(home), "--json"])
    assert json.loads(done.stdout)["home"] == str(home)
    done = CliRunner().invoke(cli.app, ["inspect", "nothing", "--home", str(home)])
    assert (done.exit_code, raw_controls(done.output)) == (2, [])


@pytest.mark.browser
def test_a_page_in_a_browser_shows_the_override_and_runs_nothing(
    evil: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser_page: Page
) -> None:
    """The page of the fixture fails the test on a dialog, an error and any request but for the file."""
    pages = _pages(evil, tmp_path, monkeypatch)
    documents = next(
        name for name in pages if name.startswith("documents") and r"\u202e" in pages[name]
    )
    for name in (documents, "rows0", "tiny.html"):
        (tmp_path / "shown.html").write_text(pages[name])
        browser_page.goto((tmp_path / "shown.html").as_uri())
        said = browser_page.inner_text("body")
        assert raw_controls(said) == []
        if name != "tiny.html":
            assert r"\u202e" in browser_page.content()
        assert browser_page.title() != "title"
