"""`curriculum export`: a trained model as a folder that stands on its own."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from curriculum.inspection.formats import count
from curriculum.pipeline.references import checkpoint_of, title_of
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Store
from curriculum.tokens.codec import Tokenizer
from flows.cli.console import MUTED, err, out
from schemas.errors import JobError
from schemas.text import nearest

if TYPE_CHECKING:
    from curriculum.train.export import Vocabulary


def export_model(home: Path, what: str, to: Path, form: str) -> None:
    """Write the model of a run or checkpoint to a folder; print which it is, and what is there.

    Raises:
        JobError: for no such checkpoint or format, and a model that the format can't hold.
    """
    checkpoint = checkpoint_of(home, what)
    err.print(Text(title_of(checkpoint), MUTED), soft_wrap=True)
    from curriculum.train import export as exporting
    from curriculum.train.restore import job_of

    known = next((each for each in exporting.FORMATS if each == form), None)
    if known is None:
        cure = nearest(form, exporting.FORMATS)
        raise JobError("--format", form, cause="there is no such format", cure=cure)
    store = Store.containing(checkpoint)
    tokenizer = load_tokenizer(store.load(store.root / job_of(checkpoint).tokenizer.path))
    exporting.export(checkpoint, to, vocabulary_of(tokenizer), known)
    for file in sorted(to.iterdir()):
        out.print(Text(f"{file}  "), Text(f"{count(file.stat().st_size)}B", MUTED), soft_wrap=True)


def vocabulary_of(tokenizer: Tokenizer) -> "Vocabulary":
    """A tokenizer as an export holds it."""
    from curriculum.train.export import Vocabulary

    return Vocabulary(
        json=tokenizer.json,
        document_tokens=tokenizer.document_tokens,
        ids={str(role): token for role, token in tokenizer.ids_of.items()},
        texts={
            role: tokenizer.decode([token])
            for role, token in tokenizer.ids_of.items()
            if tokenizer.special[token]
        },
    )
