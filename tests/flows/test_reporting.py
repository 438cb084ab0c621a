"""`curriculum report` writes a report anew, with pages of its rows, and says where it is."""

import re
import shutil
import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows import cli


@pytest.fixture(scope="module")
def home(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's workspace, without its reports."""
    copied = tmp_path_factory.mktemp("reporting") / "workspace"
    shutil.copytree(demo_home, copied, symlinks=True)
    shutil.rmtree(copied / "reports")
    return copied


def _asked(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, ["report", *arguments])
    return done.exit_code, done.output


def test_a_report_is_written_anew_with_a_page_for_each_data_set(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def remember(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", remember)
    file = home / "reports" / "templates@demo.html"
    assert _asked("templates.demo", "--open", "--home", str(home)) == (0, f"{file}\n")
    assert opened == [file.as_uri()]
    text = file.read_text()
    links = set(re.findall(r'class="example" href="([^"#]*)#r\d"', text))
    pages = {f"rows/{each.name}" for each in (home / "reports" / "rows").iterdir()}
    assert links == pages
    trained = [*(home / "rows").glob("**/split-train/*/manifest.json")]
    assert len(pages) == len(trained) == 8
    sizes = [each.stat().st_size for each in (home / "reports").glob("**/*.html")]
    assert max(sizes) < 1_000_000
    for page in pages:
        said = (home / "reports" / page).read_text()
        assert "<td>?</td>" not in said, "every document is known down to its commit"


def test_without_a_name_all_that_have_begun_are_reported(home: Path) -> None:
    file = home / "reports" / "templates@demo.html"
    assert _asked("--home", str(home)) == (0, f"{file}\n")


def test_a_run_s_name_means_its_specialist_and_a_near_one_gets_the_likely_name(home: Path) -> None:
    file = home / "reports" / "templates@demo.html"
    assert _asked("templates/anneal", "--home", str(home)) == (0, f"{file}\n")
    code, said = _asked("templates/anneall", "--home", str(home))
    assert code == 2
    assert "templates/anneall: " in " ".join(said.split())
    assert "Did you mean 'templates/demo/anneal'?" in " ".join(said.split())


def test_where_nobody_has_begun_it_says_how_to(tmp_path: Path) -> None:
    code, said = _asked("--home", str(tmp_path))
    assert code == 2
    assert "curriculum demo" in " ".join(said.split())
    code, said = _asked("nobody", "--home", str(tmp_path))
    assert code == 2
    assert "nobody" in said
    assert [*tmp_path.iterdir()] == []


def test_what_is_only_built_shows_its_rows(home: Path) -> None:
    for stage in ("mixtures", "runs"):
        for mark in (home / "current").glob(f"{stage}+*.txt"):
            mark.unlink()
    assert _asked("templates/demo", "--home", str(home))[0] == 0
    text = (home / "reports" / "templates@demo.html").read_text()
    assert "The phase has not been mixed yet." in text
    assert "No rows have been built yet." not in text
    assert text.count('class="example"') >= 8
