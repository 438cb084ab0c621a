from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from curriculum.interop.attribution import notice
from curriculum.store import Recipe, StagingDirectory, Store
from tests import factories

SOURCES = (
    ("one", "MIT", "Ann Author"),
    ("one", "MIT", "Ben *Bold*"),
    ("one", "GPL-3.0-only", None),
    ("two", None, None),
    ("two", "MIT", "Ann Author"),
)


def _notice(root: Path, *, without: int | None = None) -> str:
    documents = [
        factories.document(
            f"int a{number};\n",
            provenance=(
                factories.provenance(repository=repository, licence=licence, holder=holder),
            ),
        )
        for number, (repository, licence, holder) in enumerate(SOURCES)
    ]
    recipe = Recipe(
        stage="documents",
        labels=(("family", "v2_simple"), ("repository", "one")),
        revision=1,
        config={},
    )

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        factories.write_documents(documents, drafts[0].path)

    (artefact,) = Store(root).produce([recipe], fill)
    ids = [each.document_id for number, each in enumerate(documents) if number != without]
    return notice([artefact], pa.array(ids))


def test_a_notice_lists_holders_by_repository_and_licence(tmp_path: Path) -> None:
    text = _notice(tmp_path).partition("## ")[2].splitlines()
    assert [line for line in text if line] == [
        "one",
        "GPL-3.0-only (copyleft)",
        "- not said",
        "MIT (permissive)",
        "- Ann Author",
        r"- Ben \*Bold\*",
        "## two",
        "MIT (permissive)",
        "- Ann Author",
        "not said (unknown)",
        "- not said",
    ]


def test_a_notice_names_nobody_whose_code_is_not_in_the_data(tmp_path: Path) -> None:
    assert "GPL-3.0-only" in _notice(tmp_path / "whole")
    assert "GPL-3.0-only" not in _notice(tmp_path / "part", without=2)
