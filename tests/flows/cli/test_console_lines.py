"""A line that commands print stays one, whatever others wrote into it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.text import Text

from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from flows.cli import console
from flows.cli.inspect.artefacts import header

FORGED = "a\nerror: forged"


@pytest.mark.parametrize("show", [console.warn, console.print_line])
def test_a_line_feed_begins_no_line(
    show: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    show(FORGED)
    shown = capsys.readouterr()
    assert (shown.out + shown.err).splitlines() == [r"a\nerror: forged"]


def test_a_text_may_have_several_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The control: the console itself keeps line feeds."""
    console.err.print(Text(FORGED))
    assert capsys.readouterr().err.splitlines() == FORGED.splitlines()


def test_the_time_in_a_manifest_begins_no_line(tmp_path: Path) -> None:
    def fill(drafts: Sequence[StagingDirectory]) -> None:
        (drafts[0].path / "text.json").write_text("{}")

    recipe = Recipe(stage="documents", labels=(("family", "v2_simple"),), revision=1)
    (made,) = Store(tmp_path).produce([recipe], fill)
    manifest = made.manifest.model_copy(update={"created": FORGED})
    lines = [*header(Store(tmp_path), Artefact(path=made.path, manifest=manifest))]
    assert "forged" in lines[1].plain
    assert [line for line in lines if "\n" in line.plain] == []
