"""Documents of another family with their code structure, row by row, with unchanged text."""

from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.families import v6_enriched
from curriculum.families.document_writer import EnrichedWriter, documents_in
from curriculum.graph.syntax_tree import grammar_versions
from curriculum.stages.selection import title
from curriculum.stages.stage import Stage
from curriculum.store import Artefact, Recipe, StagingDirectory
from schemas.families import ENRICHED_FAMILY, FAMILIES
from schemas.reports import DocumentsReport


@dataclass(frozen=True, kw_only=True, slots=True)
class EnrichedDocuments(Stage[Sequence[Artefact], Artefact]):
    """Stage that adds code structure to an artefact of documents.

    Row i of the result is the same document as row i of the input.
    """

    name = "structure"
    parses = True

    def title(self, task: Artefact) -> str:
        """Return the title of the documents."""
        return title(task)

    def recipes(self, task: Artefact) -> Sequence[Recipe]:
        """Return the recipe of the enriched documents."""
        labels = task.manifest.labels
        recipe = Recipe(
            stage="documents",
            labels=(
                ("family", ENRICHED_FAMILY),
                ("base", labels["family"]),
                ("repository", labels["repository"]),
            ),
            revision=FAMILIES[ENRICHED_FAMILY].revision,
            inputs=(task.as_input("documents"),),
            tools=grammar_versions(),
        )
        return [recipe]

    def run(self, task: Artefact, drafts: Sequence[StagingDirectory]) -> None:
        """Parse the documents, and write their structure along with their text."""
        (draft,) = drafts
        with EnrichedWriter(draft.path) as writer:
            for document in documents_in(task.path):
                writer.append(document, v6_enriched.enrich(document))
        draft.record(DocumentsReport(documents=writer.count, num_bytes=writer.num_bytes))
