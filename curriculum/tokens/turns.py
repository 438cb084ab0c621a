"""Marks: the ids around the turns of a conversation, from the chat template or from the tokenizer.

template     text that the tokenizer's chat template writes around turns (chat_template.py)

Without a template:

roles        <|user|> … of the tokenizer if it has a token for every role, else lines such as `### User`
end of turn  <|end_of_turn|>, else EOS, else nothing
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
"""Lines of text that name the role, for tokenizers without a token for every role."""
Style = Literal["template", "tokens", "lines"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Frame:
    """Generated ids around the turns of one conversation, without BOS and EOS."""

    opening: Ids
    """Ids before the marks of the first turn, for example those of a default system turn."""
    leads: tuple[Ids, ...]
    """Ids directly before the text of each turn, which name its role."""
    ends: tuple[Ids, ...]
    """Ids directly after the text of each turn."""


class TurnFormat(Protocol):
    """Format of conversations for one tokenizer: the marks of turns."""

    @property
    def style(self) -> Style:
        """Source of the marks: a template, role tokens, or lines of text."""
        ...

    @property
    def ender(self) -> int | None:
        """Id of the control token that ends an assistant turn; None if there is none.

        The token is the last target of the turn.
        """
        ...

    @property
    def ending(self) -> Ids:
        """Ids of the text that ends each assistant turn; empty if a control token ends it."""
        ...

    @property
    def ends_by_eos(self) -> bool:
        """True if turns end with EOS because the tokenizer has no token for the end of a turn."""
        ...

    def frame(self, roles: Sequence[Role]) -> Frame:
        """Return the ids around the turns of a conversation with these roles.

        Raises:
            TurnError: for a conversation that can't be marked, naming the turn.
            TokenizerError: for a conversation of several turns on which template and tokenizer disagree.
        """
        ...

    def check(self, title: str, roles: Sequence[Role], texts: Sequence[bytes]) -> None:
        """Raise if the format would change the text of a turn; `title` names the conversation.

        Raises:
            TurnError: naming the conversation and the turn.
        """
        ...

    @property
    def reads_texts(self) -> bool:
        """True if the result of `check` depends on the texts, and not only on the roles."""
        ...


def turn_format(tokenizer: Tokenizer) -> TurnFormat:
    """Return the format of turns for a tokenizer: that of its chat template, if any, else its own.

    Raises:
        TokenizerError: for an unsupported chat template.
    """
    template = tokenizer.chat_template
    return turn_marks(tokenizer) if template is None else _templated(tokenizer, template)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TurnMarks:
    """Marks without a chat template: role tokens or role lines before turns, and an end token after them.

    Text never encodes to the control tokens among the marks.
    """

    leads: Mapping[Role, Ids]
    """Ids before a turn, by role."""
    end: Ids
    """Ids after a turn: one control token, or none."""
    style: Style
    ends_by_eos: bool
    reads_texts: bool = False
    ending: Ids = field(default_factory=lambda: _ids())

    @property
    def ender(self) -> int | None:
        """Id of the token at the end of each turn; None if there is none."""
        return int(self.end[0]) if len(self.end) else None

    def frame(self, roles: Sequence[Role]) -> Frame:
        """Return the ids around the turns of a conversation with these roles."""
        return Frame(
            opening=_ids(),
            leads=tuple(self.leads[role] for role in roles),
            ends=(self.end,) * len(roles),
        )

    def check(self, title: str, roles: Sequence[Role], texts: Sequence[bytes]) -> None:
        """Do nothing, because these marks don't change any text."""


def turn_marks(tokenizer: Tokenizer) -> TurnMarks:
    """Return the marks of a tokenizer without using its chat template."""
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
    """Marks that a chat template writes around turns; control tokens in the template's text become ids."""

    tokenizer: Tokenizer
    template: ChatTemplate
    controls: "_Controls"
    ender: int | None
    ending_text: str
    """Text that ends each assistant turn if no control token does; may be empty."""
    style: Style = "template"
    ends_by_eos: bool = False
    _frames: dict[tuple[Role, ...], Frame] = field(default_factory=dict)

    @property
    def ending(self) -> Ids:
        """Ids of the text that ends each assistant turn; may be empty."""
        return self.tokenizer.encode(self.ending_text)

    @property
    def reads_texts(self) -> bool:
        """True if the template changes contents that contain some strings."""
        return bool(self.template.sensitive())

    def frame(self, roles: Sequence[Role]) -> Frame:
        """Return the ids around turns: each gap between two contents is split between the turns around it.

        A gap up to its end token belongs to the turn before it, and the rest to the turn after it. A gap
        without end token, such as `[/INST]`, belongs entirely to the turn after it.
        """
        asked = tuple(roles)
        if asked not in self._frames:
            self._frames[asked] = self._framed(asked)
        return self._frames[asked]

    def _framed(self, roles: tuple[Role, ...]) -> Frame:
        texts = self.template.gaps(roles)
        # Gap number turn + 1 comes directly after the turn.
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
        """Return the ids of a gap.

        After an answer, the text that ends the answer is encoded separately, so that no token spans its end.
        """
        at = len(self.ending_text) if is_behind_answer else 0
        parts = (self.controls.encode(self.tokenizer, text) for text in (gap[:at], gap[at:]))
        return np.concatenate([*parts])

    def _border(self, gap: Ids) -> int:
        """Return the index in `gap` of the next turn's first token, marked here by │.

        For example: <|im_end|> LF │ <|im_start|> user LF.
        """
        ended = np.flatnonzero(gap == -1 if self.ender is None else gap == self.ender)
        if not len(ended):
            return 0
        behind = int(ended[-1]) + 1
        marks = np.flatnonzero(self.tokenizer.special[gap[behind:]])
        return behind + int(marks[0]) if len(marks) else behind

    def _require_one_bos(self, roles: tuple[Role, ...], gaps: Sequence[Ids]) -> None:
        """Raise if the template writes BOS between turns although BOS marks the beginning of documents."""
        bos = self.tokenizer.bos_id
        if bos is None or bos == self.tokenizer.pad_id:
            return
        turn = next((turn for turn, gap in enumerate(gaps) if (gap == bos).any()), None)
        if turn is not None:
            raise TokenizerError(
                self.template.name, _turn(roles, min(turn, len(roles) - 1)),
                cause="the template writes BOS there, but BOS may only begin a document",
                cure="Set document_tokens to eos or none, so that no BOS marks documents",
            )  # fmt: skip

    def _require_end(self, roles: tuple[Role, ...], gaps: Sequence[str], tail: Ids) -> None:
        """Raise if an answer ends otherwise than the answers from which the marks were determined."""
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
                cause="the template ends it differently than in a shorter conversation", cure=CURE,
            )  # fmt: skip

    def check(self, title: str, roles: Sequence[Role], texts: Sequence[bytes]) -> None:
        """Raise if the template would change the content of a turn."""
        for turn, (role, text) in enumerate(zip(roles, texts, strict=True)):
            content = text.decode()
            for string in self.template.sensitive():
                if string.role == role and string.is_in(content):
                    raise TurnError(
                        title, f"{_turn(roles, turn)}, {string.text!r} {string.place} it",
                        cause=f"{self.template.name} has a chat template that would alter or reject "
                        "this content, and contents must stay unchanged",
                        cure="Change the turn, or leave the conversation out. " + CURE,
                    )  # fmt: skip


def _templated(tokenizer: Tokenizer, template: ChatTemplate) -> _TemplateMarks:
    """Return the marks of a template, determined with a conversation of two answers.

    If the same control token comes first after both answers, for example <|im_end|>, <|eot_id|> or </s>, the
    token ends answers. Otherwise, answers end with the text that follows both of them, such as a line feed.
    If no such text exists either, no end of an answer is trained on, not even that of the last answer.
    """
    template.sensitive()
    controls = _Controls.from_tokenizer(tokenizer)
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
    """Finder of control tokens in text that a template has generated; the longest match wins."""

    pattern: re.Pattern[str]
    ids: tuple[int, ...]
    """Id of the control token that each group of the pattern matches, beginning with group 1."""

    @staticmethod
    def from_tokenizer(tokenizer: Tokenizer) -> "_Controls":
        """Return the finder for a tokenizer's control tokens.

        Some control tokens absorb the white space around them.
        """
        content = json.loads(tokenizer.json)
        controls = controls_of(content)
        added = [
            token for token in content.get("added_tokens") or () if token["content"] in controls
        ]
        added.sort(key=lambda token: -len(token["content"]))
        found = (
            rf"{_space(token, 'lstrip')}({re.escape(token['content'])}){_space(token, 'rstrip')}"
            for token in added
        )
        return _Controls(
            pattern=re.compile("|".join(found) or r"(?!)"),
            ids=tuple(token["id"] for token in added),
        )

    def encode(self, tokenizer: Tokenizer, text: str) -> Ids:
        """Return the ids of text that a template has generated, with the control tokens in it."""
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
    """Return `ids` without the template's BOS, because each document begins with BOS anyway."""
    return ids[1:] if len(ids) and ids[0] == tokenizer.bos_id else ids


def _without_eos(ids: Ids, tokenizer: Tokenizer) -> Ids:
    return ids[:-1] if len(ids) and ids[-1] == tokenizer.eos_id else ids


def _eos(tokenizer: Tokenizer) -> Ids:
    return _ids() if tokenizer.eos_id is None else _ids(tokenizer.eos_id)


def _turn(roles: Sequence[Role], turn: int) -> str:
    return f"turn {turn + 1}, {roles[turn]}, of a conversation of {len(roles)}"


def _ids(*ids: int) -> Ids:
    return np.array(ids, dtype=np.int32)
