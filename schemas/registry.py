"""Registries: named entries that refer to a function, and types of fields that contain their names."""

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, core_schema


class HasName(Protocol):
    """An entry of a registry."""

    @property
    def name(self) -> str:
        """Name in YAML, labels and paths."""
        ...


Entry = TypeVar("Entry", bound=HasName)


class Registry(Mapping[str, Entry], Generic[Entry]):
    """Entries by name, in the order of registration."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            self.register(entry)

    def register(self, entry: Entry) -> None:
        """Add an entry.

        Raises:
            ValueError: if the name is already registered.
        """
        if entry.name in self._entries:
            raise ValueError(f"{entry.name} is already registered. Choose another name")
        self._entries[entry.name] = entry

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class NameIn:
    """Annotation of a string field that contains the name of a registry's entry, or one of `others`.

    The names are listed in the JSON schema.
    """

    def __init__(self, registry: Registry[Any], *others: str) -> None:
        self._registry = registry
        self._others = others

    def __get_pydantic_core_schema__(
        self, source: type[str], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._require, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "enum": [*self._others, *self._registry]}

    def _require(self, name: str) -> str:
        if name not in self._registry and name not in self._others:
            known = ", ".join(f"'{entry}'" for entry in (*self._others, *self._registry))
            raise PydanticKnownError("literal_error", {"expected": known})
        return name


@cache
def imported(reference: str) -> Any:
    """Return the object that `module:name` refers to, importing the module on first use.

    >>> imported("math:tau") > 6
    True

    Raises:
        ImportError: if the module doesn't exist.
        AttributeError: if the module has no such name.
    """
    return pkgutil.resolve_name(reference)
