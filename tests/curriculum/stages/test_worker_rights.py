"""A worker that parses a repository writes artefacts, and nothing that would run or decide anything later."""

import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from curriculum.corpus.sources import Sources
from curriculum.sandbox import landlock
from curriculum.stages.documents import repositories
from curriculum.stages.stage import Coordinator, Stage, Workers
from curriculum.stages.worker_rights import worker_rights
from curriculum.store import Recipe, StagingDirectory, Store
from curriculum.tokens.chat_template import ChatTemplate
from schemas.corpus import CorpusSpec, RepositorySpec

pytestmark = pytest.mark.skipif(not landlock(), reason="needs Landlock")

TESTS = str(Path(__file__).parents[2])


def read_secret(home: Path) -> None:
    (home.parent / "secret").read_text()


def write_diet(home: Path) -> None:
    (home / "diets" / "mine.yaml").write_text("trainer: {command: [touch, x]}\n")


def write_card(home: Path) -> None:
    (home / "README.md").write_text("x")


def change_repository(home: Path) -> None:
    (home.parent / "repository" / "a.cpp").write_text("changed")


def change_by_program(home: Path) -> None:
    done = subprocess.run(["/bin/sh", "-c", f"echo x > {home.parent}/outside"], check=False)
    if done.returncode:
        raise PermissionError


def open_socket(_: Path) -> None:
    socket.socket().close()


def signal_parent(_: Path) -> None:
    os.kill(os.getppid(), 0)


def render_template(_: Path) -> None:
    text = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
    template = ChatTemplate(name="chat_template.jinja", text=text, tokens=())
    assert len(template.gaps(("user", "assistant"))) == 3


ALLOWED = {render_template.__name__: render_template}
ATTACKS: dict[str, Callable[[Path], None]] = {
    attack.__name__: attack
    for attack in (
        *(read_secret, write_diet, write_card, change_repository, change_by_program),
        open_socket,
        *([signal_parent] if landlock() >= 6 else []),
    )
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Hostile(Stage[Sequence[str], str]):
    """A parser that was taken over: its artefacts hold what became of its attacks."""

    name = "documents"
    parses = True
    home: Path

    def tasks(self, inputs: Sequence[str]) -> Sequence[str]:
        return inputs

    def title(self, task: str) -> str:
        return task

    def recipes(self, task: str) -> Sequence[Recipe]:
        labels = (("family", "hostile"), ("repository", task))
        return [Recipe(stage="documents", labels=labels, revision=1, config={"task": task})]

    def run(self, task: str, drafts: Sequence[StagingDirectory]) -> None:
        (draft,) = drafts
        try:
            {**ATTACKS, **ALLOWED}[task](self.home)
        except PermissionError:
            end = "refused"
        else:
            end = "done"
        (draft.path / "end").write_text(f"{end} {os.getpid()}")


def ends(folder: Path, attacks: Sequence[str], *, confined: bool) -> dict[str, str]:
    """Return the outcome of each attack in workers of a workspace beside a secret and a repository."""
    home = folder / "home"
    (home / "diets").mkdir(parents=True)
    (folder / "repository").mkdir()
    (folder / "repository" / "a.cpp").write_text("int a;\n")
    (folder / "secret").write_text("secret")
    spec = RepositorySpec(name="repository", path=str(folder / "repository"))
    corpus, store = CorpusSpec(name="c", repositories=(spec,)), Store(home)
    found = repositories(corpus, Sources.from_workspace(home))
    sandbox = worker_rights(store, corpus, found, ("documents",))
    assert sandbox is not None
    # The worker imports this file.
    sandbox = replace(sandbox, read=(*sandbox.read, TESTS))
    workers = Workers(processes=2)
    coordinator = Coordinator(store=store, workers=workers, sandbox=sandbox if confined else None)
    made = coordinator.by_task(Hostile(home=home), attacks)
    return {
        attack: (artefact.path / "end").read_text()
        for attack, (artefact,) in zip(attacks, made, strict=True)
    }


def test_a_worker_of_a_build_can_do_nothing_beyond_its_artefacts(tmp_path: Path) -> None:
    refused = ends(tmp_path / "confined", [*ATTACKS], confined=True)
    assert {attack: end.split()[0] for attack, end in refused.items()} == dict.fromkeys(
        ATTACKS, "refused"
    )
    assert (tmp_path / "confined" / "repository" / "a.cpp").read_text() == "int a;\n"
    done = ends(tmp_path / "free", [*ATTACKS], confined=False)
    assert {attack: end.split()[0] for attack, end in done.items()} == dict.fromkeys(
        ATTACKS, "done"
    )


def test_a_worker_of_a_build_renders_chat_templates(tmp_path: Path) -> None:
    (end,) = ends(tmp_path / "confined", [*ALLOWED], confined=True).values()
    assert end.startswith("done")


def test_a_single_repository_is_parsed_by_a_confined_worker_too(tmp_path: Path) -> None:
    (end,) = ends(tmp_path / "confined", ["read_secret"], confined=True).values()
    assert end.startswith("refused")
    assert int(end.split()[1]) != os.getpid()
    (end,) = ends(tmp_path / "free", ["read_secret"], confined=False).values()
    assert end == f"done {os.getpid()}"
