r"""The content of a tokenizer.json, admitted before an engine sees it.

Engines expand what they are given, run its regular expressions with backtracking, and panic at the rest.
Admitted are byte-level BPE models of a bounded vocabulary, made of parts that neither multiply text nor
take more than the square of its length.

An engine that backtracks tries the lengths of each repetition again whenever something behind it fails. What
counts is therefore, along one way through a regular expression:

    ways       choices among alternatives, options and bounded repetitions, multiplied
    retried    unbounded repetitions with something behind them that may fail; possessive ones aren't

Two repetitions retried would take the square of a line at each of its places, and a repetition inside
another, which counts as two, more than any machine has. Admitted is at most one; GPT-2's `\s+(?!\S)`,
cl100k's and o200k's patterns are of that kind.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.errors import TokenizerError
from schemas.json_text import parse_json
from schemas.text import Whole

LONGEST = 4_000
"""Characters of a pattern; the longest in use has some hundreds."""
MOST_WAYS = 2_000
LARGEST = 1_000
"""Characters of a repetition of fixed length, written out."""
FEW = 16
"""A repetition of at most so many counts as ways; of more, as unbounded."""
DEEPEST = 20
_BACK = "123456789kgGKX"
"""Behind a backslash: references, calls and what isn't part of a pattern for single characters."""
_TESTS = "bBAzZGyY"
"""Behind a backslash: tests of a place, which take no character."""
_PROPERTY = "pPxou"


class PatternError(ValueError):
    """A pattern isn't admitted; the message is why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cost:
    """The cost of a part of a pattern."""

    ways: int = 1
    retried: int = 0
    pending: int = 0
    """Unbounded repetitions that aren't retried unless something behind them fails."""
    may_fail: bool = True
    """True where it needs something of the text."""
    fixed: int | None = 1
    """Characters, where that is always the same number and there is one way."""


_NOTHING = _Cost(may_fail=False, fixed=0)
_TEST = _Cost(fixed=None)


def require_bounded(pattern: str) -> None:
    """Pass if a pattern takes at most the square of a text's length.

    Raises:
        PatternError: with what it has that may take longer, or that isn't understood.
    """
    if len(pattern) > LONGEST:
        raise PatternError(f"it has {len(pattern):,} characters; {LONGEST:,} are read")
    reader = _Reader(pattern)
    cost = reader.alternatives(0)
    if not reader.is_at_end:
        raise PatternError("a parenthesis is closed that wasn't opened")
    _require(cost)


def _require(cost: _Cost) -> None:
    if cost.ways > MOST_WAYS:
        raise PatternError(f"there are more than {MOST_WAYS:,} ways through it")
    if cost.retried > 1:
        raise PatternError(
            "two unbounded repetitions stand before something that may fail; make the first possessive"
        )


class _Reader:
    """Reads a pattern in Oniguruma's syntax, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        """True once everything was read."""
        return self._at == len(self._text)

    def alternatives(self, depth: int) -> _Cost:
        """The cost of what stands between parentheses, or of all."""
        if depth > DEEPEST:
            raise PatternError(f"more than {DEEPEST} groups are nested")
        found = [self._sequence(depth)]
        while self._takes("|"):
            found.append(self._sequence(depth))
        if len(found) == 1:
            return found[0]
        sizes = {each.fixed for each in found}
        cost = _Cost(
            ways=sum(each.ways for each in found),
            retried=max(each.retried for each in found),
            pending=max(each.pending for each in found),
            may_fail=all(each.may_fail for each in found),
            fixed=None if len(sizes) > 1 or max(len(found), 1) > 1 else sizes.pop(),
        )
        # At the top level one alternative after another is tried, once at each place.
        if depth:
            _require(cost)
        return cost

    def _sequence(self, depth: int) -> _Cost:
        ways, retried, pending, fixed = 1, 0, 0, 0
        may_fail, is_fixed = False, True
        while not self.is_at_end and self._text[self._at] not in "|)":
            each = self._repeated(self._atom(depth))
            if each.may_fail:
                retried, pending = retried + pending, 0
                may_fail = True
            ways *= each.ways
            retried += each.retried
            pending += each.pending
            is_fixed = is_fixed and each.fixed is not None
            fixed += each.fixed or 0
            _require(_Cost(ways=ways, retried=retried))
        return _Cost(
            ways=ways,
            retried=retried,
            pending=pending,
            may_fail=may_fail,
            fixed=fixed if is_fixed else None,
        )

    def _atom(self, depth: int) -> _Cost:
        letter = self._next()
        if letter == "(":
            return self._group(depth + 1)
        if letter == "[":
            self._class(1)
        elif letter == "\\":
            return self._escaped()
        elif letter in "*+?":
            raise PatternError("a repetition stands behind nothing")
        elif letter in "^$":
            return _TEST
        return _Cost()

    def _escaped(self) -> _Cost:
        letter = self._next()
        if letter in _BACK:
            raise PatternError(f"\\{letter} refers to what was matched before, or isn't known")
        if letter in _PROPERTY and self._takes("{"):
            while self._next() != "}":
                pass
        if letter == "R":
            return _Cost(ways=2, fixed=None)
        return _TEST if letter in _TESTS else _Cost()

    def _class(self, depth: int) -> None:
        """Pass over a class; classes inside of it and `&&` among them."""
        if depth > DEEPEST:
            raise PatternError(f"more than {DEEPEST} classes are nested")
        self._takes("^")
        self._takes("]")
        while (letter := self._next()) != "]":
            if letter == "\\":
                self._next()
            elif letter == "[":
                self._class(depth + 1)

    def _group(self, depth: int) -> _Cost:
        looks = atomic = False
        if self._takes("?"):
            kind = self._next()
            kind += self._next() if kind == "<" else ""
            looks, atomic = kind in ("=", "!", "<=", "<!"), kind == ">"
            if not looks and not atomic and kind != ":" and self._flags(kind):
                return _NOTHING
        inner = self.alternatives(depth)
        if not self._takes(")"):
            raise PatternError("a parenthesis isn't closed")
        if looks:
            return _Cost(
                ways=inner.ways, retried=inner.retried + inner.pending, pending=0, fixed=None
            )
        if atomic:
            return _Cost(
                ways=inner.ways, retried=inner.retried, may_fail=inner.may_fail, fixed=inner.fixed
            )
        return inner

    def _flags(self, kind: str) -> bool:
        """Pass over `(?i:`, or over all of `(?i)`, and say which."""
        # Not x: what a comment holds would be read as the pattern.
        while kind in ("i", "m", "s", "-"):
            kind = self._next()
            if kind in (":", ")"):
                return kind == ")"
        raise PatternError(f"a group begins with (?{kind}, which isn't admitted")

    def _repeated(self, cost: _Cost) -> _Cost:
        """The cost with the repetitions that stand behind."""
        while not self.is_at_end:
            least_most = self._counts()
            if least_most is None:
                break
            # Behind counts in braces, a + repeats once more, and behind a single count a ? is an option.
            in_braces = self._text[self._at - 1] == "}"
            possessive = not in_braces and self._takes("+")
            if not possessive and not (in_braces and least_most[0] == least_most[1]):
                self._takes("?")
            cost = _repetition(cost, *least_most, possessive=possessive)
        return cost

    def _counts(self) -> tuple[int, int | None] | None:
        """(least, most) of a repetition; None where none stands."""
        for letter, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(letter):
                return counts
        end = self._text.find("}", self._at)
        if self._text[self._at] != "{" or end < 0:
            return None
        first, comma, last = self._text[self._at + 1 : end].partition(",")
        if not all(each.isascii() and each.isdigit() for each in (first or "0", last or "0")):
            return None
        if max(len(first), len(last)) > 6 or not first + last:
            raise PatternError("a repetition's counts aren't understood")
        self._at = end + 1
        least = int(first or 0)
        return least, int(last) if last else None if comma else least

    def _next(self) -> str:
        if self.is_at_end:
            raise PatternError("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _takes(self, letter: str) -> bool:
        found = self._text.startswith(letter, self._at)
        self._at += found
        return found


def _repetition(cost: _Cost, least: int, most: int | None, *, possessive: bool) -> _Cost:
    """The cost of something repeated."""
    may_fail = cost.may_fail and least > 0
    if most is not None and least == most == 1:
        return cost
    if most == 1:
        ways = 1 if possessive else cost.ways + 1
        return _Cost(
            ways=max(ways, cost.ways), retried=cost.retried, pending=0 if possessive else cost.pending,
            may_fail=may_fail, fixed=None,
        )  # fmt: skip
    if cost.fixed is None and cost.may_fail and not cost.retried and most is None:
        # Of no harm at the end, where nothing makes an engine try it in other ways.
        return _Cost(ways=cost.ways, pending=2, may_fail=may_fail, fixed=None)
    if not cost.fixed:
        raise PatternError("a repetition stands behind a group of several lengths, or of none")
    if cost.fixed * max(least, most or 0) > LARGEST:
        raise PatternError(f"a repetition is of more than {LARGEST:,} characters")
    if least == most:
        return _Cost(may_fail=may_fail, fixed=cost.fixed * least)
    if possessive:
        return _Cost(may_fail=may_fail, fixed=None)
    if most is not None and most - least < FEW:
        return _Cost(ways=most - least + 1, may_fail=may_fail, fixed=None)
    return _Cost(pending=1, may_fail=may_fail, fixed=None)


LARGEST_VOCABULARY = 1 << 21
"""Ids; the largest in use has a million."""
MOST_ADDED, LONGEST_ADDED = 1 << 16, 256
"""Added tokens, and characters of one."""
MOST_PARTS = 16
"""Normalizers and pre-tokenizers, each on its own."""
_GROWING = {"ByteLevel", "Metaspace"}
"""Parts that make text longer, so that one of a kind is admitted."""
_PARTS: Mapping[str, frozenset[str]] = {
    "normalizer": frozenset(
        ("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Strip", "StripAccents", "ByteLevel")
    ),
    "pre_tokenizer": frozenset(
        (
            *("BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "FixedLength", "Metaspace"),
            *("Punctuation", "Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit"),
        )
    ),
}  # fmt: skip
"""The parts whose work is bounded; whether they keep bytes is found by trial."""
_INNER = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}
_Id = Annotated[Whole, Field(ge=0, lt=LARGEST_VOCABULARY)]
_Part = dict[str, Any]


class _Described(BaseModel):
    """A part of the file; fields that aren't declared are for the engine."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Added(_Described):
    id: _Id
    content: Annotated[str, Field(min_length=1, max_length=LONGEST_ADDED)]


class _Model(_Described):
    type: str
    vocab: dict[str, _Id]
    dropout: float | None = None


class _File(_Described):
    added_tokens: Annotated[tuple[_Added, ...], Field(max_length=MOST_ADDED)] | None = None
    normalizer: _Part | None = None
    pre_tokenizer: _Part | None = None
    decoder: _Part | None = None
    model: _Model


def admitted(text: str, name: str) -> dict[str, Any]:
    """The content of a tokenizer.json of a BPE model that always gives the same ids.

    Raises:
        TokenizerError: for any other file, with its first fault.
    """
    try:
        content = parse_json(text)
    except ValueError as broken:
        raise _refused(name, None, f"it is no JSON file that is read ({broken})") from None
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        raise _refused(name, None, "it isn't a tokenizer.json of Hugging Face tokenizers")
    kind, dropout = model.get("type"), model.get("dropout")
    if kind != "BPE" or dropout:
        raise TokenizerError(
            name, f"model {_short(kind)}, dropout {_short(dropout)}",
            cause="only BPE without dropout keeps promises",
            cure="Give a byte-level BPE, or train one: curriculum tokenizer train",
        )  # fmt: skip
    require_numbered(content, name)
    for field in _PARTS:
        _require_parts(field, content.get(field), name)
    for pattern in _patterns({key: value for key, value in content.items() if key != "model"}):
        try:
            require_bounded(pattern)
        except PatternError as unbounded:
            raise _refused(name, f"the pattern {_short(pattern)}", str(unbounded)) from None
    found: dict[str, Any] = content
    return found


def require_numbered(content: dict[str, Any], name: str) -> None:
    """Raise unless each piece and added token has an id of its own, the one that tokenizers gives it.

    Raises:
        TokenizerError: naming the file and the first fault.
    """
    try:
        described = _File.model_validate(content)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False)[0]
        place = ".".join(_short(each) for each in first["loc"])
        raise _refused(name, place, first["msg"]) from None
    _require_distinct(described, name)
    _require_given_ids(described, name)


def controls_of(content: dict[str, Any]) -> dict[str, int]:
    """Text → id of every added token that isn't mere whitespace, whether flagged special or not.

    Foreign files flag sentinels such as <|fim_prefix|> as ordinary; runs of spaces are ordinary text.
    """
    added = content.get("added_tokens") or ()
    return {token["content"]: token["id"] for token in added if token["content"].strip()}


def _require_distinct(described: _File, name: str) -> None:
    vocab = described.model.vocab
    if len(set(vocab.values())) < len(vocab):
        raise _refused(name, "model.vocab", "two of its tokens have one id")
    added = described.added_tokens or ()
    for what in ([each.id for each in added], [each.content for each in added]):
        if len(set(what)) < len(what):
            raise _refused(name, "added_tokens", "two of them have one id, or one text")


def _require_given_ids(described: _File, name: str) -> None:
    """Refuse added tokens that tokenizers numbers otherwise: from the vocabulary's end on, in their order."""
    vocab = described.model.vocab
    highest = len(vocab) - 1
    for token in described.added_tokens or ():
        given = vocab.get(token.content, highest + 1)
        if given != token.id:
            raise TokenizerError(
                name, f"added token {_short(token.content)} has id {token.id}",
                cause=f"tokenizers gives it id {given}: a token that the vocabulary lacks gets the next free "
                "id, and no id is left out",
                cure="Add the tokens whose ids are missing, or give the file that the rows were made with",
            )  # fmt: skip
        highest = max(highest, given)


def _require_parts(field: str, part: _Part | None, name: str) -> None:
    kinds = [*_kinds(part, _INNER[field])]
    for kind in kinds:
        if kind not in _PARTS[field]:
            words = f"its {field.replace('_', '-')} ({_short(kind)}) may change or multiply text"
            raise _refused(name, None, f'{words}; "{field}": null would not')
    several = next((kind for kind in _GROWING if kinds.count(kind) > 1), None)
    if several is not None or len(kinds) > MOST_PARTS:
        found = f"{kinds.count(several)} × {several}" if several else f"{len(kinds)} parts"
        raise _refused(name, f"{field}: {found}", "their work multiplies")


def _kinds(part: object, inner: str) -> Iterator[str]:
    """The types of a part and of those in its sequences."""
    if isinstance(part, dict) and part.get("type") == "Sequence":
        listed = part.get(inner)
        for each in listed if isinstance(listed, list) else ():
            yield from _kinds(each, inner)
    elif part is not None:
        yield str(part.get("type")) if isinstance(part, dict) else str(part)


def _patterns(value: object) -> Iterator[str]:
    """Every regular expression below a value."""
    if isinstance(value, dict):
        pattern = value.get("Regex")
        if isinstance(pattern, str):
            yield pattern
        for each in value.values():
            yield from _patterns(each)
    elif isinstance(value, list):
        for each in value:
            yield from _patterns(each)


def _refused(name: str, value: str | None, cause: str) -> TokenizerError:
    return TokenizerError(
        name, value, cause=cause,
        cure="Give a byte-level BPE of Hugging Face tokenizers, or train one: curriculum tokenizer train",
    )  # fmt: skip


def _short(value: object) -> str:
    shown = ascii(value).strip("'") if isinstance(value, str) else ascii(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
