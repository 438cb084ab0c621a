"""`curriculum sample`: the completion of a prompt by a trained model, token by token."""

import codecs
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from curriculum.inspection.formats import number
from curriculum.model.sampling import Sampling
from curriculum.pipeline.references import checkpoint_of, title_of
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Store
from curriculum.tokens.codec import NAMES, ControlRole, Tokenizer
from flows import settings
from flows.cli.console import MUTED, err
from schemas.errors import CorpusError, TokenizerError
from schemas.visible import visible

HOLE: tuple[ControlRole, ...] = ("fim_prefix", "fim_suffix", "fim_middle")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """Prompt: the beginning of a document, and what follows the gap if it has one."""

    before: str
    after: str | None = None


def sample(home: Path, what: str, prompt: Prompt, sampling: Sampling, *, tokens: int) -> None:
    """Write a completion to stdout as it is sampled, and a note on it to stderr.

    A terminal sees the prompt before it and pictures of control characters; a pipe gets the bare text. Either
    gets a line end after it, where it has none.

    Raises:
        JobError: for no such checkpoint, a damaged one, and a prompt longer than its rows.
        TokenizerError: for a gap to fill with a tokenizer that has no marks for it.
    """
    # torch takes seconds to import; a wrong name is told before.
    checkpoint = checkpoint_of(home, what)
    settings.wait_passively()
    from curriculum.train.restore import job_of
    from curriculum.train.sample import complete

    job = job_of(checkpoint)
    store = Store.containing(checkpoint)
    tokenizer = load_tokenizer(store.load(store.root / job.tokenizer.path))
    ids = prompt_ids(tokenizer, prompt)
    drawn = complete(checkpoint, ids, sampling, tokens=tokens, end=tokenizer.eos_id)
    if sys.stdout.isatty():
        err.print(Text(visible(prompt.before), MUTED), end="", soft_wrap=True)
    began = time.monotonic()
    made: list[int] = []
    last = ""
    for text in streamed(tokenizer, _noted(drawn, made)):
        last = text or last
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
    sys.stdout.write("" if last.endswith("\n") else "\n")
    sys.stdout.flush()
    ended = "end of the document" if made[-1:] == [tokenizer.eos_id] else "cut there"
    speed = len(made) / max(time.monotonic() - began, 1e-9)
    err.print(
        Text(
            f"{number(len(made), 'token')} after a prompt of {number(len(ids), 'token')}, {ended}; "
            f"{speed:.3g} tokens/s; {title_of(checkpoint)}",
            MUTED,
        ),
        soft_wrap=True,
    )


def read_prompt(text: str | None, file: Path | None, suffix: Path | None) -> Prompt:
    """The prompt that options describe; the file `-` is stdin.

    Raises:
        CorpusError: for both text and file, and for a file that can't be read as UTF-8.
    """
    if text is not None and file is not None:
        raise CorpusError(
            "--file", file, cause="--prompt gives a prompt too", cure="Give one of the two"
        )
    before = text or "" if file is None else _read(file)
    return Prompt(before=before, after=None if suffix is None else _read(suffix))


def prompt_ids(tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    """BOS and the beginning; with a gap: BOS <prefix> before <suffix> after <middle>.

    Raises:
        TokenizerError: for a gap where the tokenizer has no such marks.
    """
    bos = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    before = tokenizer.encode(prompt.before).tolist()
    if prompt.after is None:
        return [*bos, *before]
    lacking = [NAMES[role][0] for role in HOLE if role not in tokenizer.ids_of]
    if lacking:
        raise TokenizerError(
            tokenizer.name,
            f"no {' and no '.join(lacking)}",
            cause="filling a gap needs fill-in-the-middle tokens",
            cure="Leave --fim-suffix out",
        )
    first, second, third = (tokenizer.ids_of[role] for role in HOLE)
    after = tokenizer.encode(prompt.after).tolist()
    return [*bos, first, *before, second, *after, third]


def streamed(tokenizer: Tokenizer, ids: Iterable[int]) -> Iterator[str]:
    """The text of ids as they come, valid UTF-8 in each piece; what never becomes a character is U+FFFD.

    The bytes [e2 82] [ac 21] of two tokens -> "" "€!"; control tokens have none.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in ids:
        yield decoder.decode(tokenizer.decode_bytes([token]))
    yield decoder.decode(b"", final=True)


def _noted(ids: Iterable[int], made: list[int]) -> Iterator[int]:
    for each in ids:
        made.append(each)
        yield each


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise CorpusError(
            str(file), cause=f"it can't be read ({unreadable})", cure="Give a file of text in UTF-8"
        ) from None
