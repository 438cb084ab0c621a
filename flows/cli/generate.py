"""`curriculum generate`: completion of a prompt by a trained model, token by token."""

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
    """Prompt of a model: the text before the completion and, to fill a gap, the text after the gap."""

    before: str
    after: str | None = None


def generate(home: Path, what: str, prompt: Prompt, sampling: Sampling, *, tokens: int) -> None:
    """Write a completion to stdout while it is sampled, then a summary to stderr.

    On a terminal, the prompt is printed first, and control characters are shown as symbols. Without a
    terminal, only the completion is written. If it doesn't end with a line end, one is added.

    Raises:
        JobError: if the checkpoint is missing or damaged, or the prompt longer than the model's rows.
        TokenizerError: if the prompt has a gap and the tokenizer no fill-in-the-middle tokens.
    """
    # Report a wrong name before torch is imported, which takes seconds.
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
    for text in decoded_pieces(tokenizer, _collecting(drawn, made)):
        last = text or last
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
    sys.stdout.write("" if last.endswith("\n") else "\n")
    sys.stdout.flush()
    ended = "end of the document" if made[-1:] == [tokenizer.eos_id] else "stopped at the limit"
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
    """Return the prompt that the options describe; if `file` is `-`, the text is read from stdin.

    Raises:
        CorpusError: if both text and file are given, or if a file isn't readable UTF-8.
    """
    if text is not None and file is not None:
        raise CorpusError(
            "--file", file, cause="--prompt is given too", cure="Give only one of them"
        )
    before = text or "" if file is None else _read(file)
    return Prompt(before=before, after=None if suffix is None else _read(suffix))


def prompt_ids(tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    """Return the token ids of a prompt.

    They are: BOS before. With a gap they are: BOS <prefix> before <suffix> after <middle>.

    Raises:
        TokenizerError: if the prompt has a gap and the tokenizer no fill-in-the-middle tokens.
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
            cause="the tokenizer lacks fill-in-the-middle tokens, so the model can't fill a gap",
            cure="Omit --fim-suffix",
        )
    first, second, third = (tokenizer.ids_of[role] for role in HOLE)
    after = tokenizer.encode(prompt.after).tolist()
    return [*bos, first, *before, second, *after, third]


def decoded_pieces(tokenizer: Tokenizer, ids: Iterable[int]) -> Iterator[str]:
    """Decode token ids one by one and yield a piece of text for each; invalid bytes become U+FFFD.

    A character whose bytes are split between tokens is part of the last token's piece: two tokens with the
    bytes [e2 82] and [ac 21] yield "" and "€!". Control tokens yield no text.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in ids:
        yield decoder.decode(tokenizer.decode_bytes([token]))
    yield decoder.decode(b"", final=True)


def _collecting(ids: Iterable[int], made: list[int]) -> Iterator[int]:
    for token in ids:
        made.append(token)
        yield token


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise CorpusError(
            str(file), cause=f"the file can't be read ({unreadable})", cure="Give a UTF-8 text file"
        ) from None
