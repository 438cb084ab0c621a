"""The rules that give each document its domain; `domains.yaml`."""

from typing import Annotated

from pydantic import Field

from schemas.corpus import Name
from schemas.text import Strict

GENERAL = "general"
"""The domain of a document for which no rule holds."""
CHAT_DOMAIN = "chat"
"""The domain of every conversation; no rule gives it."""
COLUMNS = ("path", "repository", "language", "num_bytes")
"""Columns that a rule may test of a document beside its features; `num_bytes` is of its code."""


class DomainRule(Strict):
    """One rule: it decides about the documents for which `when` holds and no rule before it."""

    domain: Name
    """The domain of the documents that it decides about."""
    rule: Annotated[str, Field(min_length=1, max_length=100)]
    """Its name, unique; it is kept with every document that it decides about."""
    when: Annotated[str, Field(min_length=1)]
    """A condition in SQL over path, repository, language, num_bytes and the features, on one document
    alone: comparisons, AND, OR, NOT, IN, LIKE, arithmetic, `path ~ 'regex'`."""
    why: str = ""
    """The reason, for people; it changes no key."""


class DomainsSpec(Strict):
    """A file of domains: features of a document's code, and rules in order; the first that holds decides.

    The code of a file is the file as it is after the commit, without the header; of a context document
    its target alone; of a deleted file what was taken away.
    """

    features: Annotated[dict[str, str], Field(default_factory=dict)]
    """Name → regular expression in the syntax of Rust's regex crate: matches per 1,000 bytes of code."""
    rules: Annotated[tuple[DomainRule, ...], Field(min_length=1)]
    """Rules in order; for a document for which none holds the domain is general."""

    @property
    def domains(self) -> tuple[str, ...]:
        """Every domain that a document can have, in the order of the rules, `general` last."""
        named = dict.fromkeys(rule.domain for rule in self.rules if rule.domain != GENERAL)
        return (*named, GENERAL)
