"""Documents of files: one pass over the history of a repository feeds all their families."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from curriculum.corpus import git, history
from curriculum.corpus.skips import Skips
from curriculum.families.render import render, tools
from curriculum.stages.family_writers import FamilyWriters
from curriculum.stages.repositories import Repository
from curriculum.stages.stage import Stage
from curriculum.store import Recipe, StagingDirectory
from schemas.families import FAMILIES, families_of
from schemas.reports import DocumentsReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents(Stage[Sequence[Repository], Repository]):
    """Documents of all families that are made of files, repository by repository."""

    name = "documents"
    sample: int | None = None
    """Documents of each family of a repository after which reading ends; None to read everything."""

    def tasks(self, inputs: Sequence[Repository]) -> Sequence[Repository]:
        """Return the repositories."""
        return inputs

    def title(self, task: Repository) -> str:
        """Return the repository's name."""
        return task.name

    def recipes(self, task: Repository) -> Sequence[Recipe]:
        """Return the recipe of each family."""
        return [self._recipe(task, family) for family in families_of("changes")]

    def run(self, task: Repository, drafts: Sequence[StagingDirectory]) -> None:
        """Render each change of the history for all families that are missing.

        Raises:
            CorpusError: where the repository can't be read, or more than `max_skipped` of its changes.
        """
        skips = Skips()
        with FamilyWriters(drafts, sample=self.sample) as writers:
            for change in history.read_changes(task.source, task.spec, task.corpus, skips):
                writers.add(render(change, writers.families))
                if writers.are_full:
                    break
        task.refuse_losses(skips)
        writers.report(DocumentsReport(changes=skips.report()))

    def _recipe(self, task: Repository, family: str) -> Recipe:
        config: dict[str, JsonValue] = {
            "family": family,
            "reader": history.REVISION,
            **task.ingredients(),
            **({} if self.sample is None else {"sample": self.sample}),
        }
        return Recipe(
            stage="documents",
            labels=(("family", family), ("repository", task.name)),
            revision=FAMILIES[family].revision,
            config=config,
            tools={"git": git.version(), **tools()},
        )
