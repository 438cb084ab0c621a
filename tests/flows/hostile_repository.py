"""A repository whose author attacks whoever reads it, and an innocent one of the same shape.

Every text that a repository can hold carries a payload: paths, subjects, authors, branches, code, comments,
names of functions. The innocent repository has letters where the hostile one has payloads, so that what is
made of both differs in nothing but text.
"""

import os
import re
import subprocess
from pathlib import Path

from schemas.visible import visible

HTML = '<script>alert(1)</script><img src=x onerror="alert(2)"><!--'
RICH = "[bold red]b[/][link=http://evil.example]l[/link]:smile:"
MARKDOWN = "![i](http://evil.example/i.png) [l](javascript:alert(1)) <http://evil.example>"
SQL = "'; DROP TABLE documents; --"
GLOB = "*?[!a]{b,c}"
TERMINAL = (
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07"
    "\x1b[2J\x1b[31mred\x9b31m\x7f\x08\x0b\x0c\x85"
)
BIDI = "\u202eesrever\u2066\u2069\u200f\u061c\u200b\u2060\ufeff\u2028\U000e0041"
PAYLOADS = (
    HTML,
    RICH,
    MARKDOWN,
    SQL,
    GLOB,
    TERMINAL,
    BIDI,
    "{{data}} {name} %s %(x)s ${HOME} `id` $(id)",
)
"""Hostile texts in code and, if git allows them, in subjects."""
PATHS = (
    "src/<script>alert(3)</script>.cpp",
    "src/<img src=x onerror=alert(4)>.cpp",
    'src/" onmouseover="alert(5).cpp',
    "src/[bold]rich[/bold][link=http:evil]x.cpp",
    "src/![i](http:evil).cpp",
    f"src/{SQL}.cpp",
    f"src/{GLOB}.cpp",
    "-rf.cpp",
    "--output=x.cpp",
    "src/\u202egpj.cpp",
    "src/\u05d0\u05d1\u05d2.cpp",
    "src/zero\u200bwidth\ufeff.cpp",
    "src/CON.cpp",
    "src/...cpp",
    "src/{{data}}%s{0}.cpp",
    f"src/{'long' * 50}.cpp",
)
"""Files that become documents."""
SKIPPED = (
    b"src/esc\x1b[31m.cpp",
    b"src/line\nfeed.cpp",
    b"src/tab\t.cpp",
    b"src/cr\r.cpp",
    b"caf\xe9.cpp",
)
"""Files that are counted as skipped and named in reports."""
BRANCH = "<b>evil</b>\u202e$(id)"
CODE = """\
// {payload} a function that adds {number} to each number of a list, and returns their sum.
#include <vector>

/** {payload} */
int add_{name}(const std::vector<int>& list)
{{
    const char* text = R"x({payload})x";
    int total = {number};
    for (int each : list)
        total += each + {number};
    return total;
}}
"""
DIET = """\
specialist: tiny
why: the rows of a small repository
phases_file: phases.demo
corpus: mine.yaml
tokenizer: corpus
vocab_size: 4096
model: tiny
token_budget: 4096
tokens_per_step: 2048
phases:
  - phase: syntax
    portion: 0.5
    why: files as they are
    servings: [{family: v2_doxygen, share: 0.5}, {family: v3_doxygen, share: 0.5}]
    on_shortage: renormalise
  - phase: file_graph
    portion: 0.5
    why: files with what they use
    servings: [{family: v4_context_graph, share: 1.0}]
    on_shortage: renormalise
"""
CORPUS = """\
name: mine
max_skipped: 1.0
quality: {{min_bytes: 1}}
repositories:
  - {{name: theirs, path: {path}, licence: MIT}}
"""
_OURS = re.compile(r"\x1b\[[0-9;]*m")
"""Colours and weights, which we send to a terminal ourselves."""


def innocent(text: str) -> str:
    """The text with a letter for each that may do harm; as long, in the same lines."""
    return re.sub(r"[^A-Za-z0-9\n]", "x", text)


def repository(folder: Path, *, hostile: bool) -> Path:
    """Make a repository of a commit a path; the innocent one has the same number of everything."""

    def of(text: str) -> str:
        return text if hostile else innocent(text)

    folder.mkdir(parents=True)
    _git(folder, "init", "-q", ".", author="a")
    for number, path in enumerate(PATHS):
        payload = of(PAYLOADS[number % len(PAYLOADS)])
        plain = path if hostile else f"src/file{number}.cpp"
        code = CODE.format(payload=payload, number=number, name=f"n{number}")
        _write(folder, plain.encode(), code)
        subject = of(f"Add {number} {PAYLOADS[number % len(PAYLOADS)]}")
        _commit(folder, subject, author=of(f"{RICH}{BIDI}").replace("<", "").replace(">", ""))
    for number, raw in enumerate(SKIPPED):
        _write(
            folder, raw if hostile else b"src/more%d.cpp" % number, "int main() { return 0; }\n" * 9
        )
    _commit(folder, of(TERMINAL + BIDI), author="b")
    for number, path in enumerate(PATHS[:6]):
        plain = path if hostile else f"src/file{number}.cpp"
        code = CODE.format(payload=of(PAYLOADS[number]), number=number + 100, name=f"n{number}")
        _write(folder, plain.encode(), code)
    _commit(folder, of(MARKDOWN), author="b")
    _git(folder, "branch", BRANCH if hostile else "other", author="a")
    return folder


def raw_controls(text: str) -> list[str]:
    """The characters of a text that command, reorder or hide, but line feeds, tabs and our colours."""
    said = _OURS.sub("", text)
    return [each for each in said if visible(each) != each]


def _write(folder: Path, raw: bytes, content: str) -> None:
    path = Path(os.fsdecode(bytes(folder) + b"/" + raw))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode(errors="surrogateescape"))


def _commit(folder: Path, subject: str, *, author: str) -> None:
    _git(folder, "add", "--all", author=author)
    _git(folder, "commit", "-q", "--cleanup=verbatim", "-m", subject, author=author)


def _git(folder: Path, *words: str, author: str) -> None:
    given = [
        "git",
        "-c",
        f"user.name={author}",
        "-c",
        "user.email=a@b",
        "-c",
        "init.defaultBranch=main",
    ]
    subprocess.run([*given, *words], cwd=folder, check=True)
