"""The chat template that comes with a tokenizer: what it writes before, between and behind the turns.

It is rendered with a placeholder for the content of each turn, and cut there. So contents never pass through
it: they stay byte-exact, text in them that spells a special token stays text, and a template that trims its
contents is of no effect on them. One that alters, drops, reorders or repeats a placeholder is refused, naming
the turn. So is a content that it would take apart, as Qwen3's does at `</think>`.

A template is a program, and may be anyone's: see template_process.py.
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
"""Files beside a tokenizer.json. A template in a file of its own is taken before the one in the config, and
that before the one of an older processor."""
LONGEST = 1 << 18
"""Characters of a template; those in use have up to some 20,000."""
SECONDS, WAIT_SECONDS, MEMORY = 10, 120, 1 << 30
"""CPU seconds of a process that renders, seconds that it is waited for, bytes that it may take."""
AT_ONCE = 16
"""Exchanges of the conversations that are rendered in advance: a process costs a fifth of a second."""
ROUGH = " Aa1 <&>\"'\\ {{ x }} [INST] <|y|>\r\n\n\té \t\n## z  ."
"""Inside a placeholder: what a template might escape, join or take for its own."""
LONG = 200
"""Repetitions of ROUGH in one more trial: a template might cut."""
MAX_CONSTANTS, MAX_CONSTANT_LENGTH = 500, 100
"""Strings in a template, and characters of one, that are tried as a part of a content."""
CURE = (
    f"Mend the template, or remove it from {CONFIG_NAME}, {TEMPLATE_NAME} or {OLDER_NAME}: turns are then "
    "marked as they are without one"
)
_SCRIPT = Path(template_process.__file__)
Place = Literal["inside", "at the start of", "at the end of"]
Roles = tuple[Role, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sensitive:
    """A string that a template searches contents for, and takes them apart where it finds it."""

    role: Role
    place: Place
    text: str

    def is_in(self, content: str) -> bool:
        """Return True for a content that the template would alter."""
        if self.place == "inside":
            return self.text in content
        starts = self.place == "at the start of"
        return content.startswith(self.text) if starts else content.endswith(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatTemplate:
    """A template, and the texts of the special tokens that it names."""

    name: str
    """The file that it is from."""
    text: str
    tokens: tuple[tuple[str, str], ...]
    """Pairs such as (eos_token, <|im_end|>), sorted."""

    @staticmethod
    def beside(file: Path, folders: Sequence[Path]) -> "ChatTemplate | None":
        """The template that comes with a tokenizer.json; None without one.

        The files beside may be links into some folders. Each is read once.

        Raises:
            TokenizerError: for a file that can't be read, a link that leads elsewhere, and several templates
                without a default.
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
                cause=f"a chat template of at most {LONGEST:,} is read", cure=CURE,
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
        """The fields of a tokenizer_config.json that say what this does."""
        return {"chat_template": self.text, **dict(self.tokens)}

    @property
    def config(self) -> str:
        """The tokenizer_config.json that says no more than this."""
        return json.dumps(self.fields, ensure_ascii=False, indent=1, sort_keys=True) + "\n"

    @property
    def sha256(self) -> str:
        """The digest of what decides how turns are marked."""
        return hashlib.sha256(self.config.encode()).hexdigest()

    def gaps(self, roles: Roles) -> tuple[str, ...]:
        """The texts before the first turn, between turns and behind the last: one more than roles.

        Raises:
            TurnError: for turns that it refuses, or whose contents it doesn't keep as they are.
            TokenizerError: for a template that fails.
        """
        found = _rendered_gaps(self, _batch(roles))[roles]
        if isinstance(found, TurnError):
            # The same error may be raised for many conversations.
            raise found.with_traceback(None)
        return found

    def sensitive(self) -> tuple[Sensitive, ...]:
        """The strings at which the template would take a content apart.

        Raises:
            TokenizerError: for a template that fails.
        """
        return _sensitive(self)


def _batch(roles: Roles) -> tuple[Roles, ...]:
    """Conversations to render together: many short ones, or a long one alone."""
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
    """A content that no template spells, without whitespace at its ends: x…b3.inner.e3…x."""
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
    """The texts between the contents, or the reason why there are none."""
    if result.fault is not None:
        turn = 0 if roles[0] == "system" else len(roles) - 1
        return _refused(template, roles, turn, f"the template refuses it ({result.fault})")
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
    """The strings in a template, and the texts of some conversations; in a process of its own.

    Raises:
        TokenizerError: for a template that isn't one, and one that has no end or takes too much memory.
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
            template.name, cause=f"it is no template ({answer['fault']})", cure=CURE
        )
    results = [
        _Result(text=each.get("text", ""), fault=each.get("fault")) for each in answer["rendered"]
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
    contents = [_with(template, roles, each) for each in asked]
    _, results = _render(template, [(roles, own) for own in contents])
    return tuple(
        each
        for each, own, result in zip(asked, contents, results, strict=True)
        if isinstance(_cut(template, roles, own, result), TurnError)
    )


def _tried(template: ChatTemplate) -> tuple[Roles, list[str]]:
    """A conversation that the template takes, with a system turn if it takes any; and its strings.

    Raises:
        TokenizerError: where it takes none, or cuts long contents.
    """
    plain: Roles = ("user", "assistant", "user", "assistant")
    shapes: list[Roles] = [("system", *plain), plain]
    contents = [
        [_placeholder(template, turn, ROUGH * LONG) for turn in range(len(roles))]
        for roles in shapes
    ]
    constants, results = _render(template, [*zip(shapes, contents, strict=True)])
    cuts = [_cut(template, *each) for each in zip(shapes, contents, results, strict=True)]
    roles = next(
        (each for each, cut in zip(shapes, cuts, strict=True) if isinstance(cut, tuple)), None
    )
    if roles is None:
        (_, fault) = cuts
        assert isinstance(fault, TurnError)
        raise fault
    used = [constant for constant in constants if constant and len(constant) <= MAX_CONSTANT_LENGTH]
    if len(used) > MAX_CONSTANTS:
        raise TokenizerError(
            template.name, f"{len(used):,} strings",
            cause=f"contents are tried with each string of a template, {MAX_CONSTANTS} at most", cure=CURE,
        )  # fmt: skip
    return roles, used


def _places(text: str) -> Iterator[Place]:
    """Places in a content at which a template may look for a string; whitespace at its ends it may trim."""
    yield "inside"
    if not text[0].isspace():
        yield "at the start of"
    if not text[-1].isspace():
        yield "at the end of"


def _with(template: ChatTemplate, roles: Roles, each: Sensitive) -> list[str]:
    """Contents of which those of one role have a string somewhere."""
    contents = []
    for turn, role in enumerate(roles):
        if role != each.role:
            contents.append(_placeholder(template, turn, ROUGH))
        elif each.place == "inside":
            contents.append(_placeholder(template, turn, each.text))
        else:
            own = _placeholder(template, turn, ROUGH)
            contents.append(each.text + own if each.place == "at the start of" else own + each.text)
    return contents


def _read(folders: Sequence[Path], file: Path) -> str | None:
    """Return the text of a file whose links stay inside of some folders; None where there is none."""
    try:
        content = regular_files.read_inside(file, folders)
        require_published(file)
        return content.decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as unreadable:
        raise TokenizerError(
            str(file), cause=f"it can't be read ({unreadable})", cure="Mend it, or remove it"
        ) from None


def _read_config(folders: Sequence[Path], file: Path) -> dict[str, JsonValue]:
    """Return the content of a tokenizer_config.json or chat_template.json; nothing where there is none."""
    if (text := _read(folders, file)) is None:
        return {}
    try:
        content = parse_json(text)
    except ValueError as broken:
        raise TokenizerError(
            str(file),
            cause=f"it is no JSON file that is read ({broken})",
            cure="Mend it, or remove it",
        ) from None
    return content if isinstance(content, dict) else {}


def _config_template(config: Mapping[str, JsonValue], file: Path) -> str | None:
    """The template of a config: a string, or the one named default of several."""
    found = config.get("chat_template")
    if found is None or isinstance(found, str):
        return found or None
    listed = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    named = {str(each.get("name")): each.get("template") for each in listed}
    default = named.get("default") if len(named) != 1 else next(iter(named.values()))
    if isinstance(default, str):
        return default or None
    raise TokenizerError(
        str(file), f"chat_template: {', '.join(named) or type(found).__name__}",
        cause="it is a template, or several with names of which one is default",
        cure=f"Name one of them default, or write it to {TEMPLATE_NAME}",
    )  # fmt: skip


def _token_text(value: JsonValue) -> str | None:
    """The text of a special token: a string, or an object with its content."""
    found = value.get("content") if isinstance(value, dict) else value
    return found if isinstance(found, str) else None
