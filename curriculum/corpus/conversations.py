"""Conversations in JSON lines: each line is one, in the way of OpenAI or of ShareGPT.

    {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}
    {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}]}

A system turn may come first; then user and assistant take turns, and the assistant has the last word. An
`id` beside the turns names the conversation: what shares one stays on one side of the split. A line that
isn't so is skipped, counted, and named as `file:line`. Memory is one line.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic import JsonValue

from curriculum.corpus.paths import CONTROL, is_plain
from schemas.change import Conversation, Role, Turn, digest_of
from schemas.corpus import ConversationsSpec, CorpusSpec
from schemas.errors import CorpusError
from schemas.reports import SkipsReport

REVISION = 1
"""Raised when the same lines give other conversations."""
SUFFIX = ".jsonl"
CHUNK = 1 << 20
EXAMPLES = 5
LONGEST_ID = 200
Reason = Literal["empty", "encoding", "json", "order", "role", "shape", "too_large"]
"""Reasons to skip a line.

empty      a turn of user or assistant says nothing      json       it is no JSON object
encoding   it isn't UTF-8, or half a character           order      the roles are out of order
role       a role is none of ROLES                       shape      no list of turns with role and text
too_large  it is longer than quality.max_bytes
"""
ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
}
"""Names of the roles, in either format."""
_LAYOUTS = (("messages", "role", "content"), ("conversations", "from", "value"))


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationFiles:
    """Files of a source's conversations, as they were when they were looked for."""

    spec: ConversationsSpec
    root: Path
    files: tuple[tuple[str, str], ...]
    """(path below root, sha256 of its bytes), sorted."""

    @property
    def digest(self) -> str:
        """40 hex digits, like a commit's: of all files and what they are called."""
        built = hashlib.sha256()
        for name, content in self.files:
            built.update(f"{content} {name}\0".encode())
        return built.hexdigest()[:40]

    @property
    def title(self) -> str:
        """The source in words."""
        return f"conversations {self.spec.name}"


@dataclass(kw_only=True, slots=True)
class SkippedLines:
    """Counts of lines that were read, and of those that were not by reason."""

    read: int = 0
    counts: Counter[Reason] = field(default_factory=Counter)
    examples: dict[Reason, list[str]] = field(default_factory=dict)
    """The first few lines by reason, as `file:line`."""

    def add(self, reason: Reason, place: str) -> None:
        """Count a line."""
        self.counts[reason] += 1
        kept = self.examples.setdefault(reason, [])
        if len(kept) < EXAMPLES:
            kept.append(place)

    @property
    def lost_share(self) -> float:
        """The share of all lines that gave no conversation, to compare with `max_skipped`."""
        skipped = self.counts.total()
        return skipped / max(1, self.read + skipped)

    def report(self) -> SkipsReport:
        """The counts and examples as a manifest carries them, sorted by reason."""
        return SkipsReport(
            read=self.read,
            lost=self.lost_share,
            skipped={reason: self.counts[reason] for reason in sorted(self.counts)},
            examples={reason: tuple(self.examples[reason]) for reason in sorted(self.examples)},
        )


def conversation_paths(spec: ConversationsSpec) -> tuple[Path, list[str]]:
    """The folder of a source and its files below it, sorted: the one it names, or all *.jsonl below.

    Raises:
        CorpusError: if there is none, or one has a name that isn't printable UTF-8.
    """
    path = Path(spec.path)
    if path.is_dir():
        root, names = path, sorted(_below(path))
    else:
        root, names = path.parent, [path.name] if path.is_file() else []
    if not names:
        raise CorpusError(
            f"conversations {spec.name}",
            str(path),
            cause=f"there is no {SUFFIX} file in it" if path.is_dir() else "nothing lies there",
            cure="Correct its path in the corpus file",
        )
    return root, names


def find_conversations(spec: ConversationsSpec) -> ConversationFiles:
    """The files of a source, read once for their digests.

    Raises:
        CorpusError: if there is none, or one can't be read or has a name that isn't printable UTF-8.
    """
    root, names = conversation_paths(spec)
    return ConversationFiles(
        spec=spec, root=root, files=tuple((name, _sha256(spec, root, name)) for name in names)
    )


def ingredients(found: ConversationFiles, corpus: CorpusSpec) -> dict[str, JsonValue]:
    """All that decides which conversations are read, for the key of what is made of them."""
    return {
        "pin": found.digest,
        "source": found.spec.model_dump(mode="json", include={"name", "licence"}),
        "max_bytes": corpus.quality.max_bytes,
    }


def read_conversations(
    found: ConversationFiles, corpus: CorpusSpec, skips: SkippedLines
) -> Iterator[Conversation]:
    """Every conversation of a source, in the order of its files and lines.

    What is not handed out is counted in `skips`, which is complete when the iterator ends; an empty line
    counts as nothing.

    Raises:
        CorpusError: if a file is another than it was when it was found.
    """
    for name, content in found.files:
        built = hashlib.sha256()
        with (found.root / name).open("rb") as file:
            for number, line in enumerate(_lines(file, corpus.quality.max_bytes, built), start=1):
                read = _read(line)
                if isinstance(read, _ParsedLine):
                    skips.read += 1
                    yield _conversation(found, name, number, line, read)
                elif read is not None:
                    skips.add(read, f"{name}:{number}")
        if built.hexdigest() != content:
            raise CorpusError(
                found.title,
                name,
                cause="the file changed while it was read",
                cure="Build again once nothing writes to it",
            )


def refuse_losses(found: ConversationFiles, corpus: CorpusSpec, skips: SkippedLines) -> None:
    """Pass if there are conversations and few enough lines were lost.

    Raises:
        CorpusError: with the counts and a place of each reason.
    """
    if skips.lost_share > corpus.max_skipped:
        listed = ", ".join(
            f"{reason} {skips.counts[reason]}, such as {places[0]}"
            for reason, places in sorted(skips.examples.items())
        )
        raise CorpusError(
            found.title,
            f"{skips.lost_share:.1%} of its lines give no conversation ({listed})",
            cause=f"max_skipped allows {corpus.max_skipped:.1%}",
            cure="Mend the lines, or raise max_skipped in the corpus file",
        )
    if not skips.read:
        raise CorpusError(
            found.title,
            found.spec.path,
            cause="there is no conversation in it",
            cure="Give JSON lines, or take it out of the corpus file",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _ConversationLine:
    start: int
    end: int
    """Without the line feed."""
    content: bytes | None
    """None where it is too long."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _ParsedLine:
    """Content of a sound line."""

    name: str | None
    turns: tuple[Turn, ...]


def _lines(file: BinaryIO, longest: int, built: "hashlib._Hash") -> Iterator[_ConversationLine]:
    start = 0
    while head := file.readline(longest + 1):
        built.update(head)
        end, tail = start + len(head), head
        while not tail.endswith(b"\n") and (tail := file.readline(CHUNK)):
            built.update(tail)
            end += len(tail)
        is_whole = end - start == len(head)
        content = head.removesuffix(b"\n") if is_whole else None
        yield _ConversationLine(
            start=start, end=end if content is None else start + len(content), content=content
        )
        start = end


def _read(line: _ConversationLine) -> _ParsedLine | Reason | None:
    """Return the content of a line, or the reason to skip it; None for an empty one."""
    if line.content is None:
        return "too_large"
    try:
        text = line.content.decode("utf-8-sig" if line.start == 0 else "utf-8").strip()
    except UnicodeDecodeError:
        return "encoding"
    if not text:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return "json"
    return _parse_turns(content) if isinstance(content, dict) else "json"


def _parse_turns(content: dict[str, Any]) -> _ParsedLine | Reason:
    turns = _turns(content)
    if not isinstance(turns, tuple):
        return turns
    name = content.get("id")
    return _ParsedLine(name=_name(name), turns=turns)


def _turns(content: dict[str, Any]) -> tuple[Turn, ...] | Reason:
    layout = next((each for each in _LAYOUTS if each[0] in content), None)
    if layout is None:
        return "shape"
    listed, role_name, text_name = layout
    turns = []
    for each in content[listed] if isinstance(content[listed], list) else ():
        turn = _turn(each, role_name, text_name)
        if not isinstance(turn, Turn):
            return turn
        if turn.text.strip() or turn.role != "system":
            turns.append(turn)
    if not turns:
        return "shape"
    if not _in_order([turn.role for turn in turns]):
        return "order"
    return tuple(turns) if all(turn.text.strip() for turn in turns) else "empty"


def _turn(content: object, role_name: str, text_name: str) -> Turn | Reason:
    if not isinstance(content, dict):
        return "shape"
    role, text = content.get(role_name), content.get(text_name)
    if not isinstance(role, str) or not isinstance(text, str):
        return "shape"
    if role not in ROLES:
        return "role"
    return Turn(role=ROLES[role], text=text) if _is_text(text) else "encoding"


def _in_order(roles: list[Role]) -> bool:
    """Return True if the roles are user and assistant in turn, after a system turn or none.

    >>> _in_order(["system", "user", "assistant"]), _in_order(["user", "assistant", "user"])
    (True, False)
    """
    spoken = roles[roles[0] == "system" :]
    return bool(spoken) and spoken == ["user", "assistant"] * (len(spoken) // 2)


def _is_text(text: str) -> bool:
    """Return True if it is whole characters: JSON can spell half of one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(name: object) -> str | None:
    """An id that can stand in a lineage; None for any other."""
    text = str(name) if isinstance(name, str | int) and not isinstance(name, bool) else ""
    sound = 0 < len(text) <= LONGEST_ID and _is_text(text) and CONTROL.search(text) is None
    return text if sound else None


def _conversation(
    found: ConversationFiles, name: str, number: int, line: _ConversationLine, parsed: _ParsedLine
) -> Conversation:
    digest = digest_of(parsed.turns)
    return Conversation(
        source=found.spec.name,
        pin=found.digest,
        licence=found.spec.licence,
        file=name,
        line=number,
        start=line.start,
        end=line.end,
        name=parsed.name or digest,
        digest=digest,
        turns=parsed.turns,
    )


def _below(root: Path) -> Iterator[str]:
    """Paths of the regular *.jsonl files below a folder; links are never followed."""
    for folder, _, leaves in os.walk(root, followlinks=False):
        for leaf in leaves:
            path = Path(folder) / leaf
            if path.suffix == SUFFIX and path.is_file() and not path.is_symlink():
                yield path.relative_to(root).as_posix()


def _sha256(spec: ConversationsSpec, root: Path, name: str) -> str:
    if not is_plain(os.fsencode(name)):
        raise CorpusError(
            f"conversations {spec.name}",
            ascii(name),
            cause="its name isn't printable UTF-8",
            cure="Rename the file",
        )
    try:
        with (root / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as refused:
        raise CorpusError(
            f"conversations {spec.name}",
            name,
            cause=f"the file can't be read ({refused.strerror})",
            cure="Let us read it, or take it out of the corpus file",
        ) from None
