"""Check that documents begin and end with the control tokens that --document-tokens says.

    input_ids   [BOS a EOS BOS b c EOS]      documents [0 3 7]      2 begin with BOS, 2 end with EOS

Text never encodes to control tokens. So even one BOS at the start of a document, or one EOS at its end, shows
that the data was written with such tokens. These rules are checked:

- If documents have a BOS, every document begins with BOS, and BOS occurs nowhere else.
- If documents have an EOS, some end with it; documents that were cut may lack it.
- If most documents begin with EOS, the boundaries are one token too early.
- A document that ends with padding or with a second EOS has a wrong boundary, whatever the option says.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from curriculum.tokens.codec import DocumentTokens, Tokenizer
from schemas.errors import SchemaError

FRAMES_OPTION = "--document-tokens"
IDS_AT_ONCE = 1 << 22
"""Number of ids that are compared at a time."""
Values = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]


@dataclass(kw_only=True, slots=True)
class FrameCounts:
    """Numbers of documents by the control tokens with which they begin and end."""

    claimed: DocumentTokens
    """Control tokens that documents have according to --document-tokens."""
    bos_id: int | None
    """Id of the tokenizer's BOS, whether or not documents have one; None if it is also padding or EOS."""
    eos_id: int | None
    ender: int | None
    """Id of EOS; None if the same id is also the BOS of documents."""
    filler: int | None
    """Id of the padding token; None if BOS, EOS or text has the same id."""
    documents: int = 0
    led: int = 0
    """Number of documents that begin with BOS."""
    doubled: int = 0
    """Number of documents that begin with two BOS."""
    ended: int = 0
    """Number of documents that end with EOS."""
    ended_twice: int = 0
    """Number of documents that end with two EOS."""
    bos: int = 0
    """Number of BOS tokens in all ids."""
    misled: int = 0
    """Number of documents that begin with EOS and have more than one token."""
    padded: int = 0
    """Number of documents that end with padding."""

    @staticmethod
    def of(tokenizer: Tokenizer) -> "FrameCounts":
        """Return a FrameCounts with counts of zero for documents of this tokenizer."""
        controls = tokenizer.document_controls
        bos, eos = controls.get("bos"), controls.get("eos")
        # A BOS that is also padding or EOS doesn't show where a document begins.
        ambiguous = bos in (tokenizer.pad_id, eos)
        claimed, pad = tokenizer.document_tokens, tokenizer.pad_id
        own_pad = tokenizer.special[pad] and pad not in (bos, eos)
        return FrameCounts(
            claimed=claimed,
            bos_id=None if ambiguous else bos,
            eos_id=eos,
            ender=None if "bos" in claimed and bos == eos else eos,
            filler=pad if own_pad else None,
        )

    def add(self, ids: Values, starts: Int64s, ends: Int64s) -> None:
        """Count documents; document i is `ids[starts[i] : ends[i]]`.

        Every document must have at least one token.
        """
        self.documents += len(starts)
        if self.bos_id is not None:
            led = ids[starts] == self.bos_id
            second = ids[np.minimum(starts + 1, ends - 1)] == self.bos_id
            self.led += int(led.sum())
            self.doubled += int((led & second & (ends - starts > 1)).sum())
        if self.eos_id is not None:
            self.ended += int((ids[ends - 1] == self.eos_id).sum())
        if self.ender is not None:
            self.misled += int(((ids[starts] == self.ender) & (ends - starts > 1)).sum())
            last, before = ids[ends - 1], ids[np.maximum(ends - 2, starts)]
            twice = (last == self.ender) & (before == self.ender) & (ends - starts > 1)
            self.ended_twice += int(twice.sum())
        if self.filler is not None:
            self.padded += int((ids[ends - 1] == self.filler).sum())

    def add_bos(self, ids: Values) -> None:
        """Count the BOS tokens in `ids`."""
        if self.bos_id is not None:
            for first in range(0, len(ids), IDS_AT_ONCE):
                self.bos += int((ids[first : first + IDS_AT_ONCE] == self.bos_id).sum())

    def report(self) -> dict[str, int]:
        """Return fields for the report of an import.

        The only field is the number of documents without EOS. It is left out if that number is 0, or if
        documents have no EOS according to --document-tokens.
        """
        unended = self.documents - self.ended
        return {"without_eos": unended} if "eos" in self.claimed and unended else {}

    @property
    def found(self) -> DocumentTokens:
        """Control tokens that the counted documents have, in the form of --document-tokens."""
        if self.led:
            return "bos_eos" if self.ended else "bos"
        return "eos" if self.ended else "none"

    def require(self, name: str) -> None:
        """Raise unless documents have the control tokens that --document-tokens says.

        Raises:
            SchemaError: names the file and the counts.
        """
        self._require_edges(name)
        for found, cause in (self._of_bos(), self._of_eos()):
            if found:
                claim = f"{FRAMES_OPTION} {self.claimed}"
                raise SchemaError(
                    name, found, cause=f"{claim} says that {cause}", cure=self._advice
                )

    def _require_edges(self, name: str) -> None:
        """Raise if most documents begin with EOS, or if any ends with padding or two EOS."""
        of = f"of {self.documents:,} documents"
        if 2 * self.misled > self.documents:
            raise SchemaError(
                name,
                f"EOS {self.ender} begins {self.misled:,} {of}",
                cause="EOS ends documents and begins none",
                cure="Move each boundary behind the EOS, or give a tokenizer whose BOS it is",
            )
        if self.ended_twice:
            raise SchemaError(
                name,
                f"two EOS {self.ender} end {self.ended_twice:,} {of}",
                cause="one EOS ends a document, and the second would be learnt",
                cure="Remove all but the first of them, and write the boundaries anew",
            )
        if self.padded:
            raise SchemaError(
                name,
                f"padding {self.filler} ends {self.padded:,} {of}",
                cause="padding belongs to no document, and would be learnt",
                cure="Remove the padding, and write the boundaries anew",
            )

    def _of_bos(self) -> tuple[str, str]:
        """Return a text with the counts of BOS and the rule that they violate; two empty texts if none."""
        if self.bos_id is None:
            return "", ""
        begins = f"BOS {self.bos_id} begins {self.led:,} of {self.documents:,} documents"
        inside = self.bos - self.led
        if "bos" not in self.claimed:
            return (begins, "documents have no BOS") if self.led else ("", "")
        if self.led == self.documents and not inside:
            return "", ""
        inside_too = f" and stands inside of them {inside:,} times" if inside else ""
        return f"{begins}{inside_too}", "BOS begins each document, and it may stand nowhere else"

    def _of_eos(self) -> tuple[str, str]:
        """Return a text with the counts of EOS and the rule that they violate; two empty texts if none."""
        if self.eos_id is None or not self.documents:
            return "", ""
        ends = f"EOS {self.eos_id} ends {self.ended:,} of {self.documents:,} documents"
        if "eos" not in self.claimed:
            return (ends, "documents have no EOS") if self.ended else ("", "")
        return ("", "") if self.ended else (ends, "EOS ends documents")

    @property
    def _advice(self) -> str:
        if self.doubled:
            return f"Remove the second BOS of {self.doubled:,} documents, and say {self._option}"
        if self.led and (self.led < self.documents or self.bos > self.led):
            return "Give the boundaries and the tokenizer that the data was made with"
        return f"Say {self._option}, or give the tokenizer that the data was made with"

    @property
    def _option(self) -> str:
        return f"{FRAMES_OPTION} {self.found}"


def count_frames(ids: Values, edges: Int64s, tokenizer: Tokenizer) -> FrameCounts:
    """Count documents that follow one another without gaps.

    `edges` [documents + 1] are their offsets into `ids` [tokens]; no document is empty.
    """
    counts = FrameCounts.of(tokenizer)
    counts.add(ids, edges[:-1], edges[1:])
    counts.add_bos(ids)
    return counts
