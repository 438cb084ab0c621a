"""Recipe of an artefact: its inputs and settings, and the key that follows from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pydantic import JsonValue

from schemas.corpus import is_name
from schemas.json_text import MAJOR
from schemas.json_text import digest as digest

KEY_DIGITS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """An input by its role, and the key and content that it has."""

    name: str
    key: str
    content: str
    unverified: Path | None = field(default=None, compare=False)
    """The artefact's directory, where its files must be verified before they are read; no part of the key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Inputs and settings of an artefact.

    `config` holds the fields that change bytes and no others: never paths, hosts, numbers of workers.
    `labels` say where it lies (`family=v3_simple`) and are no part of the key.
    """

    stage: str
    labels: tuple[tuple[str, str], ...]
    revision: int
    """Raised by hand when the producer's code changes the bytes it writes."""
    config: Mapping[str, JsonValue] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    alternate_folders: tuple[str, ...] = ()
    """Patterns of other shelves on which the same may stand: what is of one key is one artefact."""

    @property
    def key(self) -> str:
        """sha256 over all that can change the bytes; 64 hex digits."""
        return key_of(
            stage=self.stage,
            revision=self.revision,
            config=self.config,
            inputs=self.inputs,
            tools=self.tools,
        )

    @property
    def folder(self) -> PurePosixPath:
        """The folder, relative to the workspace, in which all versions of this artefact lie."""
        for label, value in self.labels:
            assert is_name(label), label
            assert is_name(value), f"{label}={value} is no safe path"
        return PurePosixPath(self.stage, *(f"{label}={value}" for label, value in self.labels))

    @property
    def directory(self) -> PurePosixPath:
        """The artefact's directory, relative to the workspace."""
        return self.folder / self.key[:KEY_DIGITS]


def key_of(
    *,
    stage: str,
    revision: int,
    config: Mapping[str, JsonValue],
    inputs: tuple[Input, ...],
    tools: Mapping[str, str],
) -> str:
    """The key of these ingredients; the order of inputs and of fields doesn't matter."""
    listed: list[JsonValue] = [
        [each.name, each.key, each.content] for each in sorted(inputs, key=_order)
    ]
    return digest(
        {
            "stage": stage,
            "revision": revision,
            "schema": MAJOR,
            "config": dict(config),
            "inputs": listed,
            "tools": dict(tools),
        }
    )


def _order(item: Input) -> tuple[str, str, str]:
    return item.name, item.key, item.content
