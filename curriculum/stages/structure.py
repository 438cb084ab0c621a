"""Documents with their structure: those of another family, row by row, text untouched."""

from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.families import v6_enriched
from curriculum.families.render import tools
from curriculum.families.write import EnrichedWriter, documents_in
from curriculum.stages.coordinator import Team
from curriculum.stages.selection import title
from curriculum.store import Artefact, Draft, Recipe, Store
from schemas.document import ENRICHED_FAMILY
from schemas.reports import DocumentsReport


def enriched_of(team: Team, bases: Sequence[Artefact]) -> tuple[Artefact, ...]:
    """The enriched documents of each artefact of documents."""
    tasks = [_Task(base=each) for each in bases]
    made = team.each("structure", tasks, _make, lambda task: title(task.base))
    return tuple(artefact for artefacts in made for artefact in artefacts)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    base: Artefact


def _make(store: Store, task: _Task) -> tuple[Artefact, ...]:
    labels = task.base.manifest.labels
    recipe = Recipe(
        stage="documents",
        labels=(
            ("family", ENRICHED_FAMILY),
            ("base", labels["family"]),
            ("repository", labels["repository"]),
        ),
        revision=v6_enriched.REVISION,
        inputs=(task.base.as_input("documents"),),
        tools=tools(),
    )

    def fill(drafts: Sequence[Draft]) -> None:
        with EnrichedWriter(drafts[0].path) as writer:
            for document in documents_in(task.base.path):
                writer.append(document, v6_enriched.enrich(document))
        drafts[0].record(DocumentsReport(documents=writer.count, num_bytes=writer.num_bytes))

    return tuple(store.produce([recipe], fill))
