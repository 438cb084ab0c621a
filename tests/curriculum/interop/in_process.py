"""An import without its process: tests of what becomes of rows need no sandbox around each of them."""

from collections.abc import Sequence

from curriculum.interop import import_process
from curriculum.interop.import_process import ForeignRows
from curriculum.interop.publish import Imported, ImportKey, recipe, write
from curriculum.store import Artefact, StagingDirectory, Store


def publish(store: Store, imported: Imported, tokenizer: Artefact) -> Artefact:
    """Publish the rows of an import."""
    made = recipe(ImportKey.of(imported), tokenizer)

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        (draft,) = drafts
        draft.report.update(write(imported, draft.path, made.key))

    return store.produce([made], fill)[0]


def publish_foreign(
    store: Store, rows: ForeignRows, tokenizer: Artefact, *, unsandboxed: bool = False
) -> Artefact:
    """Publish rows from elsewhere as the process of an import would, without its start of a second."""
    request = import_process._request(rows, tokenizer, store.root)
    return publish(store, import_process._imported(request), tokenizer)
