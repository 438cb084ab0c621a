"""Foreign texts are judged in linear time, and include chains level by level."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.copyright_holders import holder_in
from curriculum.corpus.encodings import decode_source
from curriculum.corpus.header_languages import (
    HeaderLanguage,
    decide_headers,
    language_by_content,
)
from curriculum.corpus.includes import HeaderPaths, included_names
from curriculum.corpus.licences import stated_in_file

pytestmark = pytest.mark.timeout(120)
BSD = "redistribution and use in source and binary forms "
Texts = Mapping[str, Callable[[int], object]]
HOSTILE: Texts = {
    "a word": lambda n: holder_in(f"Copyright (c) 2001 {'a' * n}"),
    "commas": lambda n: holder_in(f"Copyright (c) 2001 A{' ,' * (n // 2)}b"),
    "dots": lambda n: holder_in(f"Copyright (c) 2001 A{'.,' * (n // 2)}b"),
    "companies": lambda n: holder_in(f"Copyright (c) 2001 A{' inc' * (n // 4)}"),
    "years": lambda n: holder_in(f"Copyright (c) {'2001, ' * (n // 6)}"),
    "headings": lambda n: holder_in("copyright notice\n" * (n // 17)),
    "conditions": lambda n: stated_in_file(BSD * (n // 50)),
    "last conditions": lambda n: stated_in_file(f"{BSD * (n // 50)} following condition is met"),
    "parentheses": lambda n: stated_in_file(f"SPDX-License-Identifier: {'( ' * (n // 2)}"),
    "spaces": lambda n: language_by_content(b"namespace" + b" " * n + b"!;\n"),
    "classes": lambda n: language_by_content(b"class\n" * (n // 6)),
    "parameters": lambda n: language_by_content(b"f(int &" + b" " * n + b"!\n"),
    "quotes": lambda n: language_by_content(b'"' + b'\\"' * (n // 2) + b"\n"),
    "apostrophes": lambda n: language_by_content(b"'" + b"\\'" * (n // 2) + b"\n"),
    "branches": lambda n: language_by_content(b"#if 1\na\n" * (n // 8)),
    "foreign quotes": lambda n: decode_source(b'// \xa9\n"' + b'\\"' * (n // 2) + b"\n"),
}


def _seconds(work: Callable[[int], object], size: int) -> float:
    start = time.process_time()
    work(size)
    return time.process_time() - start


@pytest.mark.parametrize("work", HOSTILE.values(), ids=HOSTILE)
def test_a_text_takes_time_linear_in_its_length(work: Callable[[int], object]) -> None:
    """With the square of the length, the second one takes some seconds to minutes."""
    work(100)
    assert min(_seconds(work, 20_000), _seconds(work, 20_000)) < 0.2
    assert _seconds(work, 200_000) < 2


Files = Mapping[str, bytes]


def _decided(files: Files) -> dict[str, str]:
    def read(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        return ((path, files[path]) for path in paths)

    headers = [path for path in files if path.endswith(".h")]
    sources: dict[str, HeaderLanguage] = {
        path: "c" if path.endswith(".c") else "cpp" for path in files if not path.endswith(".h")
    }
    found = decide_headers(sources, headers, read)
    return {path: found.language_of(path) for path in headers}


def _chain(number: int) -> Files:
    headers = {f"h{i}.h": f'#include "h{i + 1}.h"\n'.encode() for i in range(number)}
    return {"a.c": b"", "b.cc": b'#include "h0.h"\n', **headers}


def _namesakes(number: int) -> Files:
    includes = b"".join(b'#include "../z%d/x.h"\n' % i for i in range(number))
    headers = {f"d{i}/x.h": b'#include "../d/x.h"\n' for i in range(number)}
    return {"a.c": b"", "b.cc": includes + b'#include "x.h"\n', **headers}


@pytest.mark.parametrize("make", [_chain, _namesakes])
def test_headers_take_time_linear_in_their_includes(make: Callable[[int], Files]) -> None:
    files = make(6_000)
    start = time.process_time()
    decided = _decided(files)
    assert time.process_time() - start < 4
    assert {*decided.values()} == {"cpp"}


def _matching(paths: Sequence[str], path: str, name: str) -> set[str]:
    """Return the headers that a name may mean, as looked for among all."""
    known = HeaderPaths(paths)
    return {known.paths[place] for place in known.matching(path, name)}


def test_a_name_means_the_header_beside_its_file_else_those_that_end_like_it() -> None:
    paths = ["a/x.h", "b/a/x.h", "b/x.h", "ax.h", "x.h", "b/.x.h"]
    assert _matching(paths, "b/f.cc", "x.h") == {"b/x.h"}
    assert _matching(paths, "c/f.cc", "a/x.h") == {"a/x.h", "b/a/x.h"}
    assert _matching(paths, "c/f.cc", "../x.h") == {"x.h"}
    assert _matching(paths, "c/f.cc", "x.h") == {"a/x.h", "b/a/x.h", "b/x.h", "x.h"}
    assert _matching(paths, "c/f.cc", ".x.h") == set()
    for name in ("", ".", "..", "x.h/", "x.h/..", "y.h", "x"):
        assert _matching(paths, "c/f.cc", name) == set()


def _decided_round_by_round(files: Files) -> dict[str, str]:
    """Decide headers by all votes anew in each round, as the rule is stated."""
    headers = {path: content for path, content in files.items() if path.endswith(".h")}
    sources = {path: "c" if path.endswith(".c") else "cpp" for path in files.keys() - headers}
    decided: dict[str, str] = {
        path: language
        for path, content in headers.items()
        if (language := language_by_content(content)) is not None
    }
    counted = Counter(sources.values())
    usual = _more(counted) or _more(Counter(decided.values())) or "c"
    while len(counted) > 1:
        votes: dict[str, Counter[str]] = {path: Counter() for path in headers}
        for path, voted in {**sources, **decided}.items():
            for name in included_names(files[path]):
                for header in _matching([*headers], path, name):
                    votes[header][voted] += 1
        added = {
            path: majority
            for path, found in votes.items()
            if path not in decided and (majority := _more(found))
        }
        if not added:
            break
        decided |= added
    return {path: decided.get(path, usual) for path in headers}


def _more(counted: Counter[str]) -> str | None:
    return None if not counted.total() else "c" if counted["c"] > counted["cpp"] else "cpp"


@given(st.integers(0, 10_000))
def test_headers_are_decided_as_by_all_votes_in_each_round(seed: int) -> None:
    dice = random.Random(seed)
    names = [
        f"{folder}{name}"
        for folder in ("", "a/", "a/b/", "c/")
        for name in ("x.h", "y.h", "z.h", "m.c", "n.cc")
    ]
    files = {}
    for path in dice.sample(names, 12):
        included = dice.choices([*names, "../x.h", "b/y.h", "./z.h"], k=dice.randrange(4))
        lines = [f'#include "{name}"\n' for name in included]
        files[path] = "".join([*lines, dice.choice(["", "", "class A;\n"])]).encode()
    assert _decided(files) == _decided_round_by_round(files)
