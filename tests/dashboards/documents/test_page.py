"""The page: whole, escaped, small, bound to itself by its policy, and usable by mouse and keyboard."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect
from typer.testing import CliRunner

from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.structure_text import StructuredText
from curriculum.store import Artefact, Store
from dashboards.document_page import (
    Article,
    TextBlock,
    TextRun,
    TreeLine,
    TreeLink,
    article_of,
    joined,
    page,
)
from dashboards.palette import SHADES
from flows import cli
from flows.cli.inspect import command
from schemas.document import Document, Part
from schemas.errors import StoreError
from schemas.visible import visible
from tests.flows.cli.inspect.conftest import view_of
from tests.flows.html_text import Read

SHOTS = Path(__file__).parents[3] / "test-output"
PATIENCE_MS = 120_000
OPTIONS = InspectOptions()
TAGS = {
    *("html", "meta", "title", "style", "header", "h1", "span", "ul", "li", "nav", "div", "input"),
    *("output", "ol", "a", "i", "b", "u", "small", "p", "kbd", "main", "article", "h2"),
    *("pre", "script"),
}


def _text(read: Read) -> str:
    return "".join(read.texts)


def _page(document: Document) -> str:
    return page("title", "subtitle", [article_of(view_of(document))])


def _artefact(home: Path, family: str) -> Artefact:
    return next(
        each
        for each in Store(home, dry=True).artefacts("documents")
        if each.manifest.labels["family"] == family
    )


def _written(home: Path, family: str, options: InspectOptions = OPTIONS) -> str:
    return command.as_page(Store(home, dry=True), _artefact(home, family), options)


@pytest.mark.parametrize("family", ["v4_context_graph", "v5_clang_graph", "v6_enriched"])
def test_the_page_holds_the_text_whole_and_once(
    looked: Path, context: Document, family: str
) -> None:
    assert _text(Read(_written(looked, family))) == context.text


def test_several_documents_are_one_page_with_a_line_each(
    looked: Path, context: Document, wide: Document
) -> None:
    read = Read(_written(looked, "v4_context_graph", InspectOptions(rows=2)))
    assert _text(read) == context.text + wide.text
    titles = [line for line in read.lines if line.endswith("arena 02dff1d4a3")]
    assert [title[:32] for title in titles] == [context.document_id, wide.document_id]
    _check_places(read)


def _check_places(read: Read) -> None:
    named = read.attributes
    ids = [value for name, value in named if name == "id" and re.match(r"n\d", value)]
    links = [value[1:] for name, value in named if name == "href"]
    assert len(ids) == len(set(ids)) > 0
    assert sorted(ids) == sorted(links), "a line of the tree leads nowhere, or text has no line"


@pytest.mark.parametrize("family", ["v4_context_graph", "v6_enriched", "v2_simple"])
def test_nothing_of_a_repository_becomes_markup(looked: Path, family: str) -> None:
    text = _written(looked, family)
    read = Read(text)
    assert set(read.tags) <= TAGS
    assert read.tags.count("script") == 2
    assert text.count("</script>") == 2
    assert [name for name, _ in read.attributes if name.startswith("on") or name == "style"] == []
    assert [value for name, value in read.attributes if name == "src"] == []
    if family != "v2_simple":
        assert "&lt;img src=x onerror=alert(2)&gt;" in text, "the subject isn't in the header"
        assert "&lt;img src=x onerror=alert(3)&gt;" in text, "the name isn't in the tree"
        assert "src/&lt;/script&gt;.cpp" in text, "the path isn't in the tree"


@given(st.text(max_size=40), st.text(max_size=40))
def test_whatever_the_text_it_comes_back(context: Document, text: str, name: str) -> None:
    size = len(text.encode())
    parts = (Part(kind="target", start=0, end=size, source=0),)
    chunks = (replace(context.chunks[-1], name=name, first_part=0, last_part=1),)
    document = replace(context, text=text, parts=parts, chunks=chunks, edges=())
    read = Read(_page(document))
    assert _text(read) == visible(text)
    assert set(read.tags) <= TAGS


def test_slots_in_a_text_are_text(context: Document) -> None:
    text = "{{data}} {{tree}}\n"
    parts = (Part(kind="target", start=0, end=len(text)),)
    document = replace(context, text=text, parts=parts, chunks=(), edges=(), provenance=())
    assert _text(Read(_page(document))) == text


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(looked: Path) -> None:
    text = _written(looked, "v6_enriched")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    digests = []
    for tag in ("style", "script"):
        found = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert found
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        digests.append(f"{tag}-src 'sha256-{digest}'")
    assert policy[1] == (
        f"default-src 'none'; {'; '.join(digests)}; base-uri 'none'; form-action 'none'"
    )
    assert re.findall(r"(?:https?:|url\(|@import|fetch\(|XMLHttp)", text) == []


def test_edges_join_lines_of_the_tree(context: Document) -> None:
    text = _page(context)
    found = re.search(r'id="data">(.*?)</script>', text)
    assert found
    data = json.loads(found[1])
    names = Read(text).lines
    said = []
    flat = iter(data["edges"])
    for source, target, look_of_it in zip(flat, flat, flat, strict=True):
        kind, label, sure = data["looks"][look_of_it]
        words = data["words"][kind][0], data["labels"][label], sure
        said.append((names[source][:10], *words, names[target][:14]))
    assert ("arena::Bum", "overrides", "overridden", 0.5, "overridesarena") in said
    assert ("called bya", "calls", "syntactic", 0.25, "callsarena::al") in said
    assert len(said) == 4


@pytest.mark.parametrize("repeat", [1, 30, 450])
def test_a_page_is_at_most_three_times_its_text_and_100_kb(repeat: int) -> None:
    size = 262_144
    line = "int f(const Slice& a) {\n"
    runs = [TextRun(pieces=[(line * (size // repeat // len(line)), "")])]
    tree = [
        TreeLine(
            number=number,
            look="l2 k3",
            name=f"leveldb::VersionSet::Builder::Apply{number}",
            word="called by",
            size="1,200 tokens",
            note="db/version_set.cc · syntactic 0.25 · function, signature · hop 2 · rank 3 · 600 bytes",
        )
        for number in range(repeat)
    ]
    links = [
        TreeLink(source=at % repeat, target=0, kind="calls", label="syntactic", confidence=0.25)
        for at in range(4 * repeat)
    ]
    blocks = [TextBlock(place=number, look="", runs=runs) for number in range(repeat)]
    article = Article(title="", facts=[], tree=tree, blocks=blocks, links=links, codes=set())
    text = page("", "", [article])
    assert len(_text(Read(text))) > size * 0.9
    assert len(text.encode()) <= 3 * len(_text(Read(text)).encode()) + 100_000


def test_colours_are_those_of_the_terminal_in_light_and_dark(looked: Path) -> None:
    text = _written(looked, "v6_enriched")
    for code, shade in enumerate(SHADES.values()):
        assert f"--c{code}:{shade.light};" in text
        assert f"--c{code}:{shade.dark};" in text
    assert '<li class="k7">comment</li>' in text
    assert '<li class="k9">namespace</li>' not in text, "nothing here is one"


def test_a_stage_without_texts_has_no_page(looked: Path) -> None:
    tokens = next(Store(looked, dry=True).artefacts("tokens"))
    with pytest.raises(StoreError, match="pages can show only documents and rows"):
        command.as_page(Store(looked, dry=True), tokens, InspectOptions())


def test_white_space_looks_like_what_stands_before_it() -> None:
    cut = [
        StructuredText("a", 7),
        StructuredText("\n  ", 4),
        StructuredText("b", 7),
        StructuredText("c", 4),
    ]
    assert [(each.text, each.code) for each in joined(cut)] == [("a\n  b", 7), ("c", 4)]


def test_the_command_writes_a_page_and_says_where(
    looked: Path, context: Document, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    asked = ["inspect", context.document_id[:10], "--html", str(file), "--home", str(looked)]
    done = CliRunner().invoke(cli.app, asked)
    assert (done.exit_code, done.output) == (0, f"{file.as_uri()}\n")
    assert _text(Read(file.read_text())) == context.text


def test_a_folder_that_isnt_there_is_a_mistake_in_a_line(
    looked: Path, context: Document, tmp_path: Path
) -> None:
    file = tmp_path / "none" / "page.html"
    asked = ["inspect", context.document_id, "--html", str(file), "--home", str(looked)]
    done = CliRunner().invoke(cli.app, asked)
    assert done.exit_code == 2
    assert str(file) in done.output
    assert "Traceback" not in done.output


@pytest.mark.browser
def test_a_context_page_in_a_browser(
    looked: Path, context: Document, tmp_path: Path, browser_page: Page
) -> None:
    file = tmp_path / "page.html"
    command.show(looked, context.document_id, InspectOptions(), html=file)
    browser_page.goto(file.as_uri())
    texts = browser_page.evaluate("[...document.querySelectorAll('pre')].map(e => e.textContent)")
    assert "".join(texts) == context.text
    tree = browser_page.locator("#tree")
    expect(tree.locator("li")).to_have_count(5)

    tree.get_by_text("main", exact=True).click()
    expect(browser_page.locator("pre.on")).to_have_attribute("data-name", "main")
    expect(browser_page.locator("pre.on")).to_be_in_viewport()
    edge = browser_page.locator("#edges a")
    expect(edge).to_have_count(1)
    assert edge.get_attribute("title") == (
        "main calls arena::BumpArena::take\nresolved, confidence 0.75"
    )
    browser_page.wait_for_url(lambda url: url.endswith("#n3"))
    edge.click()
    expect(browser_page.locator("pre.on")).to_have_attribute("data-name", "arena::BumpArena::take")

    browser_page.keyboard.press("Enter")
    expect(tree.locator("li:visible")).to_have_count(1)
    browser_page.keyboard.press("Enter")
    browser_page.keyboard.press("j")
    browser_page.keyboard.press("j")
    expect(tree.locator("li.on b")).to_have_text("arena::<img src=x onerror=alert(3)>")
    browser_page.keyboard.press("k")
    expect(tree.locator("li.on b")).to_have_text("arena::align_up(std::size_t, std::size_t)")

    browser_page.keyboard.press("/")
    browser_page.keyboard.type("main größe")
    expect(tree.locator("li:visible")).to_have_count(2)
    expect(browser_page.locator("#find output")).to_have_text("1 of 5")
    SHOTS.mkdir(exist_ok=True)
    browser_page.screenshot(path=SHOTS / "inspect-filter.png")

    browser_page.reload()
    expect(tree.locator("li:visible")).to_have_count(2)
    expect(tree.locator("li.on b")).to_have_text("arena::align_up(std::size_t, std::size_t)")
    browser_page.keyboard.press("Escape")
    expect(tree.locator("li:visible")).to_have_count(5)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_structure_in_a_browser(
    looked: Path, tmp_path: Path, browser_page: Page, scheme: str
) -> None:
    file = tmp_path / "page.html"
    command.show(looked, str(_artefact(looked, "v6_enriched").path), InspectOptions(), html=file)
    browser_page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    browser_page.goto(file.as_uri())
    browser_page.locator("pre").get_by_text("BumpArena arena;").click()
    expect(browser_page.locator("#tree li.on")).to_contain_text("level 2")
    expect(browser_page.locator("pre.on b")).to_contain_text("return arena.take(8)")
    painted = browser_page.locator("pre.k7").first
    colour = painted.evaluate("e => getComputedStyle(e).color")
    shade = SHADES["comment"].light if scheme == "light" else SHADES["comment"].dark
    assert colour == f"rgb({', '.join(str(int(shade[at : at + 2], 16)) for at in (1, 3, 5))})"
    browser_page.locator("#legend").get_by_text("comment").click()
    browser_page.wait_for_url(lambda url: url.endswith("o=k7"))
    SHOTS.mkdir(exist_ok=True)
    browser_page.screenshot(path=SHOTS / f"inspect-structure-{scheme}.png")


@pytest.mark.browser
def test_without_scripts_the_page_is_a_readable_text(
    looked: Path, context: Document, tmp_path: Path, browser: Browser
) -> None:
    file = tmp_path / "page.html"
    command.show(looked, context.document_id, InspectOptions(), html=file)
    with browser.new_context(java_script_enabled=False) as plain:
        opened = plain.new_page()
        opened.set_default_timeout(PATIENCE_MS)
        opened.goto(file.as_uri())
        opened.locator("#tree").get_by_text("main", exact=True).click()
        expect(opened.locator("pre:target")).to_contain_text("int main() {")
        expect(opened.locator("#find")).to_be_hidden()
