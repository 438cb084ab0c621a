"""Lines of a build and `curriculum inspect` about a slow foreign tokenizer."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from curriculum.inspection.build_tables import tokenizer_warnings
from curriculum.inspection.line_selection import InspectOptions
from curriculum.stages import Built
from curriculum.stages.tokens import given_tokenizer
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import NOT_COMPILED
from curriculum.tokens.train import train_tokenizer
from flows.cli.inspect.tokenizers import tokenizer_panels, tokenizer_view


def given(folder: Path, *, pattern: str | None) -> Artefact:
    """The artefact of a tokenizer.json, with a pattern of its own if one is given."""
    content = json.loads(train_tokenizer(["int main() { return 0; }\n"], vocab_size=300))
    if pattern is not None:
        content["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": pattern}
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content))
    return given_tokenizer(Store(folder / "home"), file, "bos_eos")


def built(made: Artefact) -> Built:
    return Built(
        indexes=(), documents=(), kept=(), selection=made, selections={}, tokenizer=made,
        tokens=(), rows=(), fixed={"anchor": made},
    )  # fmt: skip


@pytest.mark.parametrize(("pattern", "is_named"), [(None, False), (r"\s*\S+|\s+", True)])
def test_a_tokenizer_whose_pattern_is_not_compiled_is_named(
    pattern: str | None, is_named: bool, tmp_path: Path
) -> None:
    made = given(tmp_path, pattern=pattern)
    warnings = [*tokenizer_warnings(built(made))]
    assert [made.key[:12] in line and NOT_COMPILED in line for line in warnings] == [
        True
    ] * is_named
    console = Console(record=True, width=200)
    store, options = Store.containing(made.path), InspectOptions()
    for part in tokenizer_panels(store, made, tokenizer_view(store, made, options), options):
        console.print(part)
    assert (NOT_COMPILED in console.export_text()) == is_named
