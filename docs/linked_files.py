"""A hook of mkdocs: files outside docs/ that a document links to become pages of the site.

On GitHub a link such as `../flows/run.py` opens the file. The site has no repository behind it, so each such
file is shown on a page of its own, a Markdown file as Markdown, a folder as the list of its files; pictures
are copied.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r'(\]\(|(?:src|srcset)=")(?!https?://|#)([^)#"\s]+)')
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".json": "json", ".sql": "sql"}
PICTURES = {".png", ".svg"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add whatever the documents, and the files that they link to, lead to outside docs/."""
    queue = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    seen = set(queue)
    while queue:
        name = queue.pop()
        for target in _targets(name):
            if target not in seen and (ROOT / target).exists():
                seen.add(target)
                queue.append(target)
                files.append(_file(target, config))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to the pages of this site, and unfold the Markdown inside HTML."""
    source = page.file.src_uri
    name = _name(source)
    if not (name.endswith(".md") or (ROOT / name).is_dir()):
        return markdown

    def led(match: re.Match[str]) -> str:
        target = _from_root(name, match[2])
        if not (ROOT / target).exists():
            return match[0]
        return match[1] + posixpath.relpath(_place(target), posixpath.dirname(source) or ".")

    return LINK.sub(led, markdown).replace("<details>", '<details markdown="1">')


def _name(source: str) -> str:
    """The name, from the repository's root, of what a page of the site shows."""
    if not source.startswith("source/"):
        return f"docs/{source}"
    name = source.removeprefix("source/")
    return name if (ROOT / name).is_file() else name.removesuffix(".md")


def _targets(name: str) -> list[str]:
    """Names, from the root, of what a Markdown file or a folder leads to."""
    path = ROOT / name
    if path.is_dir():
        return [f"{name}/{each.name}" for each in sorted(path.iterdir()) if _is_shown(each)]
    if path.suffix != ".md":
        return []
    return [_from_root(name, link) for _, link in LINK.findall(path.read_text("utf-8"))]


def _is_shown(path: Path) -> bool:
    return path.is_file() and path.suffix in {".md", *LANGUAGES}


def _from_root(name: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), link))


def _place(target: str) -> str:
    """The place in the site of a file of the repository."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    suffix = "" if Path(target).suffix in {".md", *PICTURES} else ".md"
    return f"source/{target}{suffix}"


def _file(target: str, config: MkDocsConfig) -> File:
    path, place = ROOT / target, _place(target)
    if path.suffix in PICTURES:
        return File.generated(config, place, abs_src_path=str(path))
    return File.generated(config, place, content=_page(target), inclusion=InclusionLevel.NOT_IN_NAV)


def _page(target: str) -> str:
    path = ROOT / target
    if path.suffix == ".md":
        return path.read_text("utf-8")
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {target}\n\n"
    if path.is_dir():
        names = [name.rpartition("/")[2] for name in _targets(target)]
        return head + "\n".join(f"- [{each}]({path.name}/{each})" for each in names)
    text = path.read_text("utf-8")
    fence = "`" * (1 + max(map(len, ["``", *re.findall("`+", text)])))
    return f'{head}{fence}{LANGUAGES.get(path.suffix, "text")} linenums="1"\n{text}\n{fence}\n'
