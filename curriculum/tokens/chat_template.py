"""Chat template of a tokenizer: the text that it writes before, between and after the turns.

The template is rendered with a placeholder for each turn's content, and the result is cut at the
placeholders. So the contents themselves never pass through the template: they stay byte-exact, text in them
that looks like a special token stays text, and the template can't trim them. A template that alters, drops,
reorders or repeats a placeholder is rejected with an error that names the turn. A content that the template
would split is rejected too; for example, Qwen3's template splits contents at `</think>`.

A template is an untrusted program: see template_process.py.
"""

import functools
import hashlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from curriculum.published_files import require_published
from curriculum.sandbox import PYTHON, bare_environment
from curriculum.tokens import template_process
from schemas import regular_files
from schemas.change import ROLES, Role
from schemas.errors import TokenizerError, TurnError
from schemas.json_text import parse_json

CONFIG_NAME, TEMPLATE_NAME = "tokenizer_config.json", "chat_template.jinja"
OLDER_NAME = "chat_template.json"
"""Name of the file in which older processors keep their template.

Templates are read from files next to a tokenizer.json. A separate template file takes precedence over the
config, and the config takes precedence over the file OLDER_NAME.
"""
LONGEST = 1 << 18
"""Maximum length of a template in characters; those in use have up to 20,000."""
SECONDS, WAIT_SECONDS, MEMORY = 10, 120, 1 << 30
"""Limits of a rendering process: CPU seconds, wall-clock seconds, and bytes of memory."""
AT_ONCE = 16
"""Maximum number of exchanges in the conversations that are rendered in advance.

They are rendered by one process, because each process takes a fifth of a second to start.
"""
ROUGH = " Aa1 <&>\"'\\ {{ x }} [INST] <|y|>\r\n\n\té \t\n## z  ."
"""Text in placeholders with characters that a template might escape, join or interpret."""
LONG = 200
"""Number of times that a long placeholder repeats ROUGH, to detect templates that truncate contents."""
MAX_CONSTANTS, MAX_CONSTANT_LENGTH = 500, 100
"""Limits on the string constants of a template that are tried in contents: their number and their length."""
CURE = (
    f"Fix the template, or remove it from {CONFIG_NAME}, {TEMPLATE_NAME} or {OLDER_NAME}; turns are then "
    "marked without a template"
)
_SCRIPT = Path(template_process.__file__)
Place = Literal["inside", "at the start of", "at the end of"]
Roles = tuple[Role, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sensitive:
    """A string in contents that makes the template change the content.

    `role` is the role of the content, and `place` says where in the content the string must be.
    """

    role: Role
    place: Place
    text: str

    def is_in(self, content: str) -> bool:
        """Return True if `content` contains the string at `place`, so that the template would change it."""
        if self.place == "inside":
            return self.text in content
        starts = self.place == "at the start of"
        return content.startswith(self.text) if starts else content.endswith(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatTemplate:
    """A chat template, and the texts of the special tokens that the template can name."""

    name: str
    """Name of the template's file."""
    text: str
    tokens: tuple[tuple[str, str], ...]
    """Names and texts of special tokens, such as (eos_token, <|im_end|>), sorted."""

    @staticmethod
    def beside(file: Path, folders: Sequence[Path]) -> "ChatTemplate | None":
        """Return the template in the folder of the tokenizer.json `file`, or None if there is none.

        Files may be links into `folders`. Each file is read once.

        Raises:
            TokenizerError: for an unreadable file, a link that leads elsewhere, and several templates without
                a default.
        """
        config = _read_config(folders, file.with_name(CONFIG_NAME))
        source = file.with_name(TEMPLATE_NAME)
        text = _read(folders, source)
        if text is None:
            source = file.with_name(CONFIG_NAME)
            text = _config_template(config, source)
        if text is None:
            source = file.with_name(OLDER_NAME)
            text = _config_template(_read_config(folders, source), source)
        if text is None:
            return None
        if len(text) > LONGEST:
            raise TokenizerError(
                str(source), f"{len(text):,} characters",
                cause=f"a chat template may have at most {LONGEST:,} characters", cure=CURE,
            )  # fmt: skip
        found = ((name, _token_text(value)) for name, value in config.items())
        tokens = {
            name: token
            for name, token in found
            if token is not None and name.endswith("_token") and name in text
        }
        return ChatTemplate(name=source.name, text=text, tokens=tuple(sorted(tokens.items())))

    @property
    def fields(self) -> Mapping[str, str]:
        """Fields of a tokenizer_config.json with this template and these special tokens."""
        return {"chat_template": self.text, **dict(self.tokens)}

    @property
    def config(self) -> str:
        """Text of a tokenizer_config.json that contains only `fields`."""
        return json.dumps(self.fields, ensure_ascii=False, indent=1, sort_keys=True) + "\n"

    @property
    def sha256(self) -> str:
        """Digest of everything that decides the marks of turns."""
        return hashlib.sha256(self.config.encode()).hexdigest()

    def gaps(self, roles: Roles) -> tuple[str, ...]:
        """Return the texts that the template writes around the contents: len(roles) + 1 texts.

        The first text comes before the first turn, the last one after the last turn, the others between
        turns.

        Raises:
            TurnError: for turns that the template rejects or whose contents it changes.
            TokenizerError: for a template that fails.
        """
        found = _rendered_gaps(self, _batch(roles))[roles]
        if isinstance(found, TurnError):
            # The error is cached and may be raised for many conversations, so its traceback is dropped.
            raise found.with_traceback(None)
        return found

    def sensitive(self) -> tuple[Sensitive, ...]:
        """Return the strings that make the template change a content.

        Raises:
            TokenizerError: for a template that fails.
        """
        return _sensitive(self)


def _batch(roles: Roles) -> tuple[Roles, ...]:
    """Return the conversations to render in one process, given by the roles of their turns.

    Short conversations are rendered all together; a longer conversation is rendered alone.
    """
    if roles in _short():
        return _short()
    return (roles,)


@functools.cache
def _short() -> tuple[Roles, ...]:
    exchange: Roles = ("user", "assistant")
    turns = [exchange * count for count in range(1, AT_ONCE + 1)]
    return (*turns, *(("system", *turn) for turn in turns))


@functools.lru_cache(maxsize=256)
def _rendered_gaps(
    template: ChatTemplate, batch: tuple[Roles, ...]
) -> Mapping[Roles, tuple[str, ...] | TurnError]:
    contents = [
        [_placeholder(template, turn, ROUGH) for turn in range(len(roles))] for roles in batch
    ]
    _, rendered = _render(template, [*zip(batch, contents, strict=True)])
    return {
        roles: _cut(template, roles, own, result)
        for roles, own, result in zip(batch, contents, rendered, strict=True)
    }


def _placeholder(template: ChatTemplate, turn: int, inner: str) -> str:
    """Return a content for a turn, which no template contains and which has no white space at its ends.

    It has the form x…b3.inner.e3…x, in which 3 is the number of the turn and … is a digest of the template.
    """
    digest = _mark(template)
    return f"x{digest}b{turn}.{inner}.e{turn}{digest}x"


@functools.lru_cache(maxsize=16)
def _mark(template: ChatTemplate) -> str:
    return template.sha256[:16]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Result:
    text: str
    fault: str | None


def _cut(
    template: ChatTemplate, roles: Roles, contents: Sequence[str], result: _Result
) -> tuple[str, ...] | TurnError:
    """Return the texts before, between and after `contents`, or an error if a content was changed."""
    if result.fault is not None:
        turn = 0 if roles[0] == "system" else len(roles) - 1
        return _refused(template, roles, turn, f"the template rejects it ({result.fault})")
    text = result.text
    for turn, content in enumerate(contents):
        if text.count(content) != 1:
            return _refused(template, roles, turn, _why(template, text, turn, content))
    starts = [text.index(content) for content in contents]
    fallen = next((turn for turn, (a, b) in enumerate(pairwise(starts), 1) if b < a), None)
    if fallen is not None:
        return _refused(template, roles, fallen, "the template writes it before an earlier one")
    ends = [start + len(content) for start, content in zip(starts, contents, strict=True)]
    gaps = [text[end:start] for end, start in zip([0, *ends], [*starts, len(text)], strict=True)]
    repeated = next((turn for turn, gap in enumerate(gaps) if _mark(template) in gap), None)
    if repeated is not None:
        turn = min(repeated, len(roles) - 1)
        return _refused(template, roles, turn, "the template repeats a part of a content beside it")
    return tuple(gaps)


def _why(template: ChatTemplate, text: str, turn: int, content: str) -> str:
    if text.count(content) > 1:
        return "the template writes its content more than once"
    digest = _mark(template)
    begins, ends = f"x{digest}b{turn}.", f".e{turn}{digest}x"
    if begins in text or ends in text or digest.upper() in text:
        return "the template alters its content"
    return "the template leaves its content out"


def _refused(template: ChatTemplate, roles: Roles, turn: int, cause: str) -> TurnError:
    others = f"of a conversation of {len(roles)}"
    return TurnError(
        template.name, f"turn {turn + 1}, {roles[turn]}, {others}", cause=cause, cure=CURE
    )


def _render(
    template: ChatTemplate, conversations: Sequence[tuple[Roles, Sequence[str]]]
) -> tuple[tuple[str, ...], list[_Result]]:
    """Render conversations in a separate process.

    Return the string constants in the template, and the result for each conversation.

    Raises:
        TokenizerError: for an invalid template, and one that exceeds the limit of time or memory.
    """
    request = {
        "template": template.text,
        "tokens": dict(template.tokens),
        "seconds": SECONDS,
        "bytes": MEMORY,
        "conversations": [[*zip(*conversation, strict=True)] for conversation in conversations],
    }
    try:
        done = subprocess.run(
            [*PYTHON, str(_SCRIPT)],
            input=json.dumps(request).encode(),
            capture_output=True,
            cwd="/",
            env=bare_environment(),
            timeout=WAIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _unbounded(template) from None
    if done.returncode < 0:
        raise _unbounded(template)
    if done.returncode > 0:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise TokenizerError(
            template.name, last or None, cause="the process that renders the chat template failed", cure=CURE
        )  # fmt: skip
    answer: dict[str, Any] = json.loads(done.stdout)
    if "fault" in answer:
        raise TokenizerError(
            template.name, cause=f"it is not a valid template ({answer['fault']})", cure=CURE
        )
    results = [
        _Result(text=result.get("text", ""), fault=result.get("fault"))
        for result in answer["rendered"]
    ]
    return tuple(answer["constants"]), results


def _unbounded(template: ChatTemplate) -> TokenizerError:
    return TokenizerError(
        template.name,
        f"{SECONDS} CPU seconds, {MEMORY >> 20:,} MiB",
        cause="the process that rendered the chat template ended at its limit of time or memory",
        cure=CURE,
    )


@functools.lru_cache(maxsize=16)
def _sensitive(template: ChatTemplate) -> tuple[Sensitive, ...]:
    roles, constants = _tried(template)
    asked = [
        Sensitive(role=role, place=place, text=text)
        for role in ROLES
        if role in roles
        for text in constants
        for place in _places(text)
    ]
    contents = [_with(template, roles, string) for string in asked]
    _, results = _render(template, [(roles, own) for own in contents])
    return tuple(
        string
        for string, own, result in zip(asked, contents, results, strict=True)
        if isinstance(_cut(template, roles, own, result), TurnError)
    )


def _tried(template: ChatTemplate) -> tuple[Roles, list[str]]:
    """Return the roles of a conversation that the template accepts, and the template's string constants.

    The conversation has a system turn if the template accepts one.

    Raises:
        TokenizerError: if the template accepts no conversation, or truncates long contents.
    """
    plain: Roles = ("user", "assistant", "user", "assistant")
    shapes: list[Roles] = [("system", *plain), plain]
    contents = [
        [_placeholder(template, turn, ROUGH * LONG) for turn in range(len(roles))]
        for roles in shapes
    ]
    constants, results = _render(template, [*zip(shapes, contents, strict=True)])
    cuts = [_cut(template, *trial) for trial in zip(shapes, contents, results, strict=True)]
    roles = next(
        (shape for shape, cut in zip(shapes, cuts, strict=True) if isinstance(cut, tuple)), None
    )
    if roles is None:
        (_, fault) = cuts
        assert isinstance(fault, TurnError)
        raise fault
    used = [constant for constant in constants if constant and len(constant) <= MAX_CONSTANT_LENGTH]
    if len(used) > MAX_CONSTANTS:
        raise TokenizerError(
            template.name, f"{len(used):,} strings",
            cause=f"a chat template may contain at most {MAX_CONSTANTS} strings", cure=CURE,
        )  # fmt: skip
    return roles, used


def _places(text: str) -> Iterator[Place]:
    """Yield the places in a content at which a template may find the string `text`.

    A start or end with white space is excluded, because templates trim contents.
    """
    yield "inside"
    if not text[0].isspace():
        yield "at the start of"
    if not text[-1].isspace():
        yield "at the end of"


def _with(template: ChatTemplate, roles: Roles, string: Sensitive) -> list[str]:
    """Return a content for each turn; those of the role `string.role` contain the sensitive string."""
    contents = []
    for turn, role in enumerate(roles):
        if role != string.role:
            contents.append(_placeholder(template, turn, ROUGH))
        elif string.place == "inside":
            contents.append(_placeholder(template, turn, string.text))
        else:
            own = _placeholder(template, turn, ROUGH)
            contents.append(
                string.text + own if string.place == "at the start of" else own + string.text
            )
    return contents


def _read(folders: Sequence[Path], file: Path) -> str | None:
    """Return the text of a file, whose links must stay inside `folders`; None if the file doesn't exist."""
    try:
        content = regular_files.read_inside(file, folders)
        require_published(file)
        return content.decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as unreadable:
        raise TokenizerError(
            str(file), cause=f"it can't be read ({unreadable})", cure="Fix it or remove it"
        ) from None


def _read_config(folders: Sequence[Path], file: Path) -> dict[str, JsonValue]:
    """Return the content of a tokenizer_config.json or chat_template.json; empty if there is no such file."""
    if (text := _read(folders, file)) is None:
        return {}
    try:
        content = parse_json(text)
    except ValueError as broken:
        raise TokenizerError(
            str(file),
            cause=f"it can't be parsed as JSON ({broken})",
            cure="Fix it or remove it",
        ) from None
    return content if isinstance(content, dict) else {}


def _config_template(config: Mapping[str, JsonValue], file: Path) -> str | None:
    """Return the template in a config; of several templates, return the one named default."""
    found = config.get("chat_template")
    if found is None or isinstance(found, str):
        return found or None
    listed = (
        [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    )
    named = {str(entry.get("name")): entry.get("template") for entry in listed}
    default = named.get("default") if len(named) != 1 else next(iter(named.values()))
    if isinstance(default, str):
        return default or None
    raise TokenizerError(
        str(file), f"chat_template: {', '.join(named) or type(found).__name__}",
        cause="it must be one template, or named templates of which one is named default",
        cure=f"Name one of them default, or write it to {TEMPLATE_NAME}",
    )  # fmt: skip


def _token_text(value: JsonValue) -> str | None:
    """Return the text of a special token, which a config gives as a string or as an object with `content`."""
    found = value.get("content") if isinstance(value, dict) else value
    return found if isinstance(found, str) else None
