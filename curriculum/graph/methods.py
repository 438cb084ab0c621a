"""Methods of classes, their bases and their heirs: who overrides whom."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from curriculum.graph.definitions import Function, agree
from curriculum.graph.memo import Memo, derived
from curriculum.graph.names import Scope
from curriculum.graph.scopes import Scopes


@dataclass(kw_only=True, slots=True, eq=False)
class Methods:
    """Finds methods by class and name."""

    scopes: Scopes

    @property
    def memo(self) -> Memo:
        """The memo of all lookups."""
        return self.scopes.memo

    def sees(self, path: str, function: Function) -> bool:
        """Whether a file sees a declaration of a function."""
        declared = (function.local,) if function.local else function.declared
        return self.scopes.sees(path, declared)

    def find(self, path: str, key: Scope, name: str, arity: int) -> list[Function]:
        """The methods of a class, else of its nearest bases, that take so many arguments."""
        known = self.scopes.functions_by_scope(name)
        for level in [(key,), *self.scopes.levels(key, path)] if known else ():
            found = [
                each
                for base in level
                for each in known.get(base, ())
                if each.takes(arity) and self.sees(path, each)
            ]
            if found:
                return found
        return []

    @derived
    def overridden(self, method: Function) -> tuple[Function, ...]:
        """The virtual methods that a method overrides, along each line of bases the nearest."""
        return tuple(self._climb(method))

    @derived
    def overriders(self, method: Function) -> tuple[Function, ...]:
        """All methods that override a method, near or far; none if it isn't virtual."""
        return tuple(self._descend(method))

    def is_virtual(self, method: Function) -> bool:
        """Whether a method or one that it overrides says so."""
        return method.is_virtual or bool(self.overridden(method))

    def _climb(self, method: Function) -> Iterable[Function]:
        path = method.nodes[0].path
        seen, waiting = {method.scope}, deque([method.scope])
        while waiting:
            for base in self.scopes.bases_at(waiting.popleft(), path):
                if base not in seen:
                    seen.add(base)
                    found = [
                        each
                        for each in self._alike(method, base)
                        if self.sees(path, each) and self._says_virtual(each)
                    ]
                    yield from found
                    if not found:
                        waiting.append(base)

    def _says_virtual(self, method: Function) -> bool:
        """Like `is_virtual`, by a walk of its own: bases may go in circles."""
        path = method.nodes[0].path
        return method.is_virtual or any(
            each.is_virtual
            for level in self.scopes.levels(method.scope, path)
            for base in level
            for each in self._alike(method, base)
        )

    def _descend(self, method: Function) -> Iterable[Function]:
        # Damaged code has virtual functions outside of classes.
        if not method.scope or not self.is_virtual(method):
            return
        for heir in self.scopes.heirs(method.scope):
            yield from self._alike(method, heir)

    def _alike(self, method: Function, key: Scope) -> Iterable[Function]:
        """The methods of a class that have a method's name and parameters."""
        name = "~" + key[-1] if method.name.startswith("~") else method.name
        for each in self.scopes.functions_by_scope(name).get(key, ()):
            if agree(each.parameters, method.parameters):
                yield each
