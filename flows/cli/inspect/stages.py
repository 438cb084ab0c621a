"""Tables of the functions with which `curriculum inspect` reads and shows the artefacts of each stage."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import RenderableType

from curriculum.inspection.document_view import documents
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.row_view import rows
from curriculum.store import Artefact, Store
from flows.cli.inspect.artefacts import InspectedArtefact, with_lines
from flows.cli.inspect.documents import document_panels
from flows.cli.inspect.mixtures import plan_panels
from flows.cli.inspect.rows import row_panels
from flows.cli.inspect.runs import run_panels, run_view
from flows.cli.inspect.selections import selection_panels
from flows.cli.inspect.tokenizers import tokenizer_panels, tokenizer_view
from flows.cli.inspect.tokens import token_documents, token_panels

Lines = Callable[[Store, Artefact, InspectOptions], Sequence[object]]
View = Callable[[Store, Artefact, InspectOptions], InspectedArtefact[Any]]
Panels = Callable[[Store, Artefact, Any, InspectOptions], Iterator[RenderableType]]
BY_LINE: dict[str, Lines] = {"rows": rows, "documents": documents, "tokens": token_documents}
"""Functions that return the lines of an artefact, for stages whose lines are shown one by one."""
WHOLE: dict[str, View] = {
    "tokenizers": tokenizer_view,
    "mixtures": with_lines,
    "selections": with_lines,
    "runs": run_view,
}
"""Functions that return the view of an artefact, for stages whose artefacts are shown as a whole.

Of artefacts of other stages, only counts are shown.
"""
PANELS: dict[str, Panels] = {
    "rows": row_panels,
    "documents": document_panels,
    "tokens": token_panels,
    "tokenizers": tokenizer_panels,
    "mixtures": plan_panels,
    "selections": selection_panels,
    "runs": run_panels,
}
