"""How deep each node of a directed graph stands above its leaves."""

from collections.abc import Iterable


def levels(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """[count] the length of the shortest way from each node to a leaf, breadth first.

    Nodes that reach each other, as functions do that call each other, count as one; a leaf is such a
    group (mostly a single node) from which no edge leads out. 0 → 1 ⇄ 2 → 3 and 4 → 4:

    >>> levels(5, [(0, 1), (1, 2), (2, 1), (2, 3), (4, 4)])
    [2, 1, 1, 0, 0]
    """
    ahead: list[list[int]] = [[] for _ in range(count)]
    behind: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        ahead[source].append(target)
        behind[target].append(source)
    found = [-1] * count
    for group in _groups(ahead, behind):
        # All that a group leads to stands in earlier groups; its own nodes have no level yet.
        below = [found[target] for node in group for target in ahead[node] if found[target] >= 0]
        level = 1 + min(below) if below else 0
        for node in group:
            found[node] = level
    return found


def _groups(ahead: list[list[int]], behind: list[list[int]]) -> list[list[int]]:
    """The strongly connected components, each after all that it leads to (Kosaraju)."""
    grouped = [False] * len(ahead)
    groups: list[list[int]] = []
    for root in reversed(_finished(ahead)):
        if grouped[root]:
            continue
        grouped[root] = True
        group = [root]
        for node in group:
            for source in behind[node]:
                if not grouped[source]:
                    grouped[source] = True
                    group.append(source)
        groups.append(group)
    groups.reverse()
    return groups


def _finished(ahead: list[list[int]]) -> list[int]:
    """All nodes, each after those that a depth-first walk found behind it."""
    seen = [False] * len(ahead)
    done: list[int] = []
    for root in range(len(ahead)):
        if seen[root]:
            continue
        seen[root] = True
        path = [(root, iter(ahead[root]))]
        while path:
            node, rest = path[-1]
            fresh = next((target for target in rest if not seen[target]), None)
            if fresh is None:
                done.append(node)
                path.pop()
            else:
                seen[fresh] = True
                path.append((fresh, iter(ahead[fresh])))
    return done
