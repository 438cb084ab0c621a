"""Marks around the turns of a conversation: those of the chat template, or of the tokenizer.

template     whatever the tokenizer's chat template writes there (chat_template.py)

and without one:

roles        <|user|> … of the tokenizer, where it has one for each role, else lines such as `### User`
turn's end   <|end_of_turn|>, else EOS, else nothing
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from curriculum.tokens.admit import controls_of
from curriculum.tokens.chat_template import CURE, ChatTemplate
from curriculum.tokens.codec import Ids, Tokenizer
from schemas.change import ROLES, Role
from schemas.errors import TokenizerError, TurnError

LINES: Mapping[Role, str] = {
    "system": "### System\n",
    "user": "### User\n",
    "assistant": "### Assistant\n",
}
"""Lines for tokenizers without tokens for the roles."""
Style = Literal["template", "tokens", "lines"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Frame:
    """The generated ids of one conversation, BOS and EOS not."""

    opening: Ids
    """Before the first turn, such as a system turn that nobody wrote."""
    leads: tuple[Ids, ...]
    """Right before each turn's text: they say who speaks."""
    ends: tuple[Ids, ...]
    """Right behind it."""


class TurnFormat(Protocol):
    """Marks of turns by one tokenizer."""

    @property
    def style(self) -> Style:
        """Origin of the marks."""
        ...

    @property
    def ender(self) -> int | None:
        """The control token with which an assistant's turn ends, the last of what is learnt of it."""
        ...

    @property
    def ending(self) -> Ids:
        """The ids of a text with which each of the assistant's turns ends, for want of a control token."""
        ...

    @property
    def ends_by_eos(self) -> bool:
        """True if a turn ends as a document does, for want of a token of its own."""
        ...

    def frame(self, roles: Sequence[Role]) -> Frame:
        """The ids around the turns of a conversation.

        Raises:
            TurnError: for a conversation that can't be marked, naming the turn.
            TokenizerError: for one of several turns that the template and the tokenizer don't agree on.
        """
        ...

    def check(self, title: str, roles: Sequence[Role], texts: Sequence[bytes]) -> None:
        """Pass if the texts of all turns may stand between these marks.

        Raises:
            TurnError: naming the conversation and the turn.
        """
        ...

    @property
    def reads_texts(self) -> bool:
        """True if `check` depends on the texts."""
        ...


def turn_format(tokenizer: Tokenizer) -> TurnFormat:
    """The marks of turns that a tokenizer has.

    Raises:
        TokenizerError: for a chat template that can't be followed.
    """
    template = tokenizer.chat_template
    return turn_marks(tokenizer) if template is None else _templated(tokenizer, template)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TurnMarks:
    """The ids around a turn; no text yields the control tokens among them."""

    leads: Mapping[Role, Ids]
    """Marks before the turn, by role."""
    end: Ids
    """Behind it: one control token, or none."""
    style: Style
    ends_by_eos: bool
    reads_texts: bool = False
    ending: Ids = field(default_factory=lambda: _ids())

    @property
    def ender(self) -> int | None:
        """The token behind each turn."""
        return int(self.end[0]) if len(self.end) else None

    def frame(self, roles: Sequence[Role]) -> Frame:
        """The marks of each turn."""
        return Frame(
            opening=_ids(),
            leads=tuple(self.leads[role] for role in roles),
            ends=(self.end,) * len(roles),
        )

    def check(self, title: str, roles: Sequence[Role], texts: Sequence[bytes]) -> None:
        """Pass: any text may stand between control tokens and lines."""


def turn_marks(tokenizer: Tokenizer) -> TurnMarks:
    """Return the marks that a tokenizer has for turns by itself."""
    own = tokenizer.ids_of
    by_tokens = all(role in own for role in ROLES)
    end = own.get("end_of_turn", tokenizer.eos_id)
    return TurnMarks(
        leads={
            role: _ids(own[role]) if by_tokens else tokenizer.encode(LINES[role]) for role in ROLES
        },
        end=_ids() if end is None else _ids(end),
        style="tokens" if by_tokens else "lines",
        ends_by_eos="end_of_turn" not in own and end is not None,
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _TemplateMarks:
    """Ids of what a chat template writes around turns; texts of control tokens are those tokens."""

    tokenizer: Tokenizer
    template: ChatTemplate
    controls: "_Controls"
    ender: int | None
    ending_text: str
    """Text that ends each of the assistant's turns where no control token does; may be empty."""
    style: Style = "template"
    ends_by_eos: bool = False
    _frames: dict[tuple[Role, ...], Frame] = field(default_factory=dict)

    @property
    def ending(self) -> Ids:
        """The ids of the text that ends each of the assistant's turns."""
        return self.tokenizer.encode(self.ending_text)

    @property
    def reads_texts(self) -> bool:
        """True for a template that takes some contents apart."""
        return bool(self.template.sensitive())

    def frame(self, roles: Sequence[Role]) -> Frame:
        """Cut what is between two texts behind the token that ends a turn, and before the next one.

        A gap without that token leads to the next turn as a whole: `[/INST]`.
        """
        asked = tuple(roles)
        if asked not in self._frames:
            self._frames[asked] = self._framed(asked)
        return self._frames[asked]

    def _framed(self, roles: tuple[Role, ...]) -> Frame:
        texts = self.template.gaps(roles)
        # The gap behind a turn has the turn's number plus one.
        behind_answers = {turn + 1 for turn, role in enumerate(roles) if role == "assistant"}
        gaps = [
            self._encoded(text, is_behind_answer=number in behind_answers)
            for number, text in enumerate(texts)
        ]
        gaps[0] = _without_bos(gaps[0], self.tokenizer)
        gaps[-1] = _without_eos(gaps[-1], self.tokenizer)
        self._require_one_bos(roles, gaps)
        self._require_end(roles, texts, gaps[-1])
        borders = [
            self._border(gap) if self.ender is not None or number not in behind_answers
            else len(self.ending)
            for number, gap in enumerate(gaps[:-1])
        ]  # fmt: skip
        ends = [gap[:border] for gap, border in zip(gaps, borders, strict=False)]
        return Frame(
            opening=ends[0],
            leads=tuple(gap[border:] for gap, border in zip(gaps, borders, strict=False)),
            ends=(*ends[1:], gaps[-1]),
        )

    def _encoded(self, gap: str, *, is_behind_answer: bool) -> Ids:
        """Return the ids of a gap; no token reaches across the end of the text that ends an answer."""
        at = len(self.ending_text) if is_behind_answer else 0
        parts = (self.controls.encode(self.tokenizer, text) for text in (gap[:at], gap[at:]))
        return np.concatenate([*parts])

    def _border(self, gap: Ids) -> int:
        """The first token of what leads to the next turn: <|im_end|> LF │ <|im_start|> user LF."""
        ended = np.flatnonzero(gap == -1 if self.ender is None else gap == self.ender)
        if not len(ended):
            return 0
        behind = int(ended[-1]) + 1
        marks = np.flatnonzero(self.tokenizer.special[gap[behind:]])
        return behind + int(marks[0]) if len(marks) else behind

    def _require_one_bos(self, roles: tuple[Role, ...], gaps: Sequence[Ids]) -> None:
        """Refuse a BOS between turns where each BOS begins a document."""
        bos = self.tokenizer.bos_id
        if bos is None or bos == self.tokenizer.pad_id:
            return
        turn = next((turn for turn, gap in enumerate(gaps) if (gap == bos).any()), None)
        if turn is not None:
            raise TokenizerError(
                self.template.name, _turn(roles, min(turn, len(roles) - 1)),
                cause="the template writes BOS there, and a BOS begins a document and is nowhere else",
                cure="Set document_tokens to eos or none, so that no BOS marks documents",
            )  # fmt: skip

    def _require_end(self, roles: tuple[Role, ...], gaps: Sequence[str], tail: Ids) -> None:
        """Refuse a conversation whose answers don't end as those of a shorter one."""
        last = len(roles) - 1
        found = _first_control(np.append(tail, _eos(self.tokenizer)), self.tokenizer)
        wrong = [last] if self.ender is not None and found != self.ender else []
        wrong += [
            turn
            for turn, role in enumerate(roles)
            if role == "assistant" and not gaps[turn + 1].startswith(self.ending_text)
        ]
        if wrong:
            raise TokenizerError(
                self.template.name, _turn(roles, wrong[0]),
                cause="the template ends it otherwise than in a shorter conversation", cure=CURE,
            )  # fmt: skip

    def check(self, title: str, roles: Sequence[Role], texts: Sequence[bytes]) -> None:
        """Refuse a content that the template would take apart."""
        for turn, (role, text) in enumerate(zip(roles, texts, strict=True)):
            content = text.decode()
            for each in self.template.sensitive():
                if each.role == role and each.is_in(content):
                    raise TurnError(
                        title, f"{_turn(roles, turn)}, {each.text!r} {each.place} it",
                        cause=f"{self.template.name} has a chat template that would alter or refuse "
                        "this content, and contents are kept as they are",
                        cure="Change the turn, or leave the conversation out. " + CURE,
                    )  # fmt: skip


def _templated(tokenizer: Tokenizer, template: ChatTemplate) -> _TemplateMarks:
    """The marks of a template, once it has marked a conversation of two answers.

    An answer ends with the first control token behind it, <|im_end|>, <|eot_id|> or </s>, if that is one and
    the same behind both. Else it ends with the text that is behind both, such as a line feed. Where nothing
    is, the end of no answer is learnt, not even that of the last.
    """
    template.sensitive()
    controls = _Controls.of(tokenizer)
    gaps = template.gaps(("user", "assistant") * 2)
    inner, tail = (controls.encode(tokenizer, gap) for gap in (gaps[2], gaps[-1]))
    ender = _first_control(np.append(tail, _eos(tokenizer)), tokenizer)
    is_everywhere = ender is not None and _first_control(inner, tokenizer) == ender
    text = controls.pattern.split(gaps[-1], maxsplit=1)[0]
    return _TemplateMarks(
        tokenizer=tokenizer,
        template=template,
        controls=controls,
        ender=ender if is_everywhere else None,
        ending_text=text if not is_everywhere and gaps[2].startswith(text) else "",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Controls:
    """Finds the texts of control tokens in generated text, the longest that is at a place."""

    pattern: re.Pattern[str]
    ids: tuple[int, ...]
    """Id of each group of the pattern, from 1."""

    @staticmethod
    def of(tokenizer: Tokenizer) -> "_Controls":
        """The control tokens of a tokenizer, with the whitespace that some take with them."""
        content = json.loads(tokenizer.json)
        controls = controls_of(content)
        added = [each for each in content.get("added_tokens") or () if each["content"] in controls]
        added.sort(key=lambda each: -len(each["content"]))
        found = (
            rf"{_space(each, 'lstrip')}({re.escape(each['content'])}){_space(each, 'rstrip')}"
            for each in added
        )
        return _Controls(
            pattern=re.compile("|".join(found) or r"(?!)"), ids=tuple(each["id"] for each in added)
        )

    def encode(self, tokenizer: Tokenizer, text: str) -> Ids:
        """The ids of a generated text."""
        pieces, at = [_ids()], 0
        for match in self.pattern.finditer(text):
            assert match.lastindex is not None, "every alternative is a group"
            pieces += [
                tokenizer.encode(text[at : match.start()]),
                _ids(self.ids[match.lastindex - 1]),
            ]
            at = match.end()
        return np.concatenate([*pieces, tokenizer.encode(text[at:])]).astype(np.int32)


def _space(token: Mapping[str, object], side: str) -> str:
    return r"\s*" if token.get(side) else ""


def _first_control(ids: Ids, tokenizer: Tokenizer) -> int | None:
    found = np.flatnonzero(tokenizer.special[ids])
    return int(ids[found[0]]) if len(found) else None


def _without_bos(ids: Ids, tokenizer: Tokenizer) -> Ids:
    """Without the BOS of a template: a document is led by one anyway."""
    return ids[1:] if len(ids) and ids[0] == tokenizer.bos_id else ids


def _without_eos(ids: Ids, tokenizer: Tokenizer) -> Ids:
    return ids[:-1] if len(ids) and ids[-1] == tokenizer.eos_id else ids


def _eos(tokenizer: Tokenizer) -> Ids:
    return _ids() if tokenizer.eos_id is None else _ids(tokenizer.eos_id)


def _turn(roles: Sequence[Role], turn: int) -> str:
    return f"turn {turn + 1}, {roles[turn]}, of a conversation of {len(roles)}"


def _ids(*ids: int) -> Ids:
    return np.array(ids, dtype=np.int32)
