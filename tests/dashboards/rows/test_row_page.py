"""The page of rows: whole, escaped, small, bound to itself, and usable by mouse and keyboard."""

import base64
import hashlib
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect

from curriculum.inspection.row_view import DocumentInRow, FileRange
from dashboards.charts.marks import document_strip, mask
from dashboards.report import files
from dashboards.rows import row_page as making
from dashboards.rows.row_page import RowsDataSet, page
from tests.flows.html_text import Read

PATIENCE_MS = 120_000


def _page(rows_home: Any, *, max_bytes: int = 0) -> str:
    return page("rows", "of <arena>", rows_home.shown(), rows_home.loaded(), max_bytes=max_bytes)


def _data(text: str) -> Any:
    found = re.search(r'id="data">(.*?)</script>', text)
    assert found
    return json.loads(found[1])


def test_every_text_is_there_as_it_is_trained_on(rows_home: Any) -> None:
    read = Read(_page(rows_home))
    tokenizer = rows_home.loaded()
    said = [
        tokenizer.decode(each.input_ids[part.start : part.end])
        for each in rows_home.shown()
        for part in each.documents
    ]
    assert read.texts == said
    assert any("</script><img src=x onerror=alert(1)>{{data}}" in text for text in read.texts)


def test_the_page_is_served_as_it_is_written(rows_home: Any, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(_page(rows_home))
    assert files.page(tmp_path, "a.html") == _page(rows_home)


def test_each_document_is_told_down_to_the_commit(rows_home: Any) -> None:
    said = Read(_page(rows_home)).said
    for at in range(3):
        assert f"arena at {at}c{'0' * 38}" in said
        assert f"src/</script>{at}.cpp" in said, "what else it was made of"
    for each in rows_home.shown():
        assert each.pack_id in said
        for part in each.documents:
            assert part.document_id in said


def test_what_people_wrote_is_never_markup(rows_home: Any) -> None:
    calm = Read(_page(rows_home))
    evil = '"><img src=x onerror="alert(1)"><script>{{data}}</script>'
    hostile = []
    for each in rows_home.shown():
        place = FileRange(repository=evil, commit=evil, path=evil, num_bytes=1)
        documents = tuple(
            replace(
                document, repository=evil, commit=evil, path=evil, licence=evil, files=(place,) * 2
            )
            for document in each.documents
        )
        words = {"pack_id": evil, "domain": evil, "documents": documents}
        hostile.append(each.model_copy(update=words))
    read = Read(page(evil, evil, hostile, rows_home.loaded()))
    gone = {"li", "b", "i", "code"}  # Places of one file at one commit are one.
    assert [tag for tag in read.tags if tag not in gone] == [
        tag for tag in calm.tags if tag not in gone
    ]
    names = {name for name, _ in read.attributes}
    assert "style" not in names, "the policy would drop it"
    assert [name for name in names if name.startswith("on") or name == "src"] == []


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(rows_home: Any) -> None:
    text = _page(rows_home)
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert found
    digests = []
    for tag in ("style", "script"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert inside
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        digests.append(f"{tag}-src 'sha256-{digest}'")
        assert re.findall(r"(?:https?:|url\(|@import|fetch\(|XMLHttp|{{)", inside[1]) == []
    assert found[1] == (
        f"default-src 'none'; {'; '.join(digests)}; base-uri 'none'; form-action 'none'"
    )


def test_the_script_is_told_where_documents_begin_and_what_is_joined(rows_home: Any) -> None:
    data = _data(_page(rows_home))
    one, three, structured = data["rows"]
    assert three["starts"] == [start for start, _ in rows_home.shown()[1].spans]
    assert one["codes"] == []
    assert structured["calls"] == [1, 0], "the body calls the signature"
    assert structured["chunks"][2::3] == [1, 2], "their levels"
    assert data["names"][3] == "func_sig"


@given(st.lists(st.integers(1, 400), min_size=1, max_size=60), st.integers(0, 200))
def test_the_mask_has_a_triangle_a_document_and_nothing_between_them(
    lengths: list[int], padding: int
) -> None:
    ends = [sum(lengths[: at + 1]) for at in range(len(lengths))]
    spans = [(end - size, end) for end, size in zip(ends, lengths, strict=True)]
    drawn = mask(spans, ends[-1] + padding)
    triangles = re.findall(r'<path d="M(\d+) (\d+)v(\d+)h(\d+)z"/>', drawn)
    assert [(int(x), int(y)) for x, y, _, _ in triangles] == [(start, start) for start, _ in spans]
    assert all(
        down == across == str(size)
        for (_, _, down, across), size in zip(triangles, lengths, strict=True)
    )
    assert len(drawn) < 500 + 130 * len(spans), "it grows with documents, not with tokens"
    assert document_strip(spans, ends[-1] + padding).count("<rect") == len(spans)


def test_a_page_that_nobody_chose_rows_for_is_small_but_never_empty(rows_home: Any) -> None:
    assert _page(rows_home, max_bytes=1).count("<article") == 1
    assert len(_data(_page(rows_home, max_bytes=1))["rows"]) == 1
    assert _page(rows_home, max_bytes=1_000_000).count("<article") == 3


@pytest.mark.parametrize(("documents", "files"), [(200, 12), (1000, 2)])
def test_a_row_of_65536_tokens_takes_at_most_a_megabyte(
    rows_home: Any, documents: int, files: int
) -> None:
    tokenizer, one = rows_home.loaded(), rows_home.shown()[1]
    code = "".join(
        f"  value_{at} = compute(argument_{at % 97}, {at}); // a line\n" for at in range(9_000)
    )
    ids = tokenizer.encode(code).tolist()[:65_536]
    assert len(ids) == 65_536
    size = 65_536 // documents
    spans = [(at * size, (at + 1) * size) for at in range(documents)]
    row = one.model_copy(
        update={
            "input_ids": ids,
            "loss_mask": [1, 0] * 32_768,
            "valid_token_count": documents * size,
            "doc_starts": [start for start, _ in spans],
            "documents": tuple(
                replace(
                    one.documents[0],
                    start=start,
                    tokens=size,
                    scored=size,
                    **_provenance(start, files),
                )
                for start, _ in spans
            ),
        }
    )
    assert len(page("x", "", [row], tokenizer).encode()) <= 1_000_000


def _provenance(number: int, files: int) -> dict[str, Any]:
    """Return the provenance of a document that shares no file with others."""
    places = [
        FileRange(
            repository="llvm-project",
            commit=hashlib.sha256(str(number).encode()).hexdigest()[:40],
            path=f"llvm/lib/Support/File{number}_{at}.cpp",
            num_bytes=1234,
        )
        for at in range(files)
    ]
    first = {name: getattr(places[0], name) for name in ("repository", "commit", "path")}
    return {**first, "licence": "Apache-2.0", "num_bytes": 1234, "files": tuple(places)}


def test_of_each_file_is_said_what_the_head_of_its_document_does_not_say(rows_home: Any) -> None:
    own = FileRange(repository="arena", commit="a" * 40, path="one.cpp", num_bytes=1)
    places = (
        own,
        replace(own, path="two.cpp"),
        replace(own, commit="b" * 40),
        replace(own, repository="other", commit="c" * 40, num_bytes=5),
    )
    part = DocumentInRow(
        repository="arena", commit="a" * 40, path="one.cpp", num_bytes=1, files=places,
        document_id="d" * 32, start=0, tokens=2, scored=1, first_byte=0, last_byte=1,
    )  # fmt: skip
    said = Read(
        page(
            "",
            "",
            [rows_home.shown()[0].model_copy(update={"documents": (part,)})],
            rows_home.loaded(),
        )
    ).said
    assert f"arena at {'a' * 40} ·" in said
    assert f"Sources: 4 files document {'d' * 32} this file, 1 bytes two.cpp 1 bytes" in said
    assert f"{'b' * 10} one.cpp 1 bytes other {'c' * 10} one.cpp 5 bytes" in said


def _many(rows_home: Any) -> tuple[str, str]:
    """A page of more documents than lines of them are written, with hostile words; and one of all lines."""
    calm = rows_home.shown()[1]
    licences = ("MIT", "</script><img src=x onerror=alert(1)>", None)
    documents = tuple(
        replace(document, licence=licence)
        for document, licence in zip(calm.documents, licences, strict=True)
    )
    shown = calm.model_copy(update={"documents": documents})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "MAX_LINES", 1)
        few = page("rows", "", [shown], rows_home.loaded())
    return few, page("rows", "", [shown], rows_home.loaded())


def test_a_row_of_many_documents_has_the_first_lines_and_says_so(rows_home: Any) -> None:
    few, all_of_them = _many(rows_home)
    assert few.count("<th scope=row>") == 1
    assert all_of_them.count("<th scope=row>") == 3
    assert "2 more documents are listed above their texts" in Read(few).said
    assert "listed above their texts" not in Read(all_of_them).said
    assert [tag for tag in Read(few).tags if tag in ("script", "img")] == ["script"] * 2


@pytest.mark.browser
def test_the_script_adds_the_lines_that_are_not_written_as_they_would_be(
    rows_home: Any, tmp_path: Path, browser_page: Page
) -> None:
    tables = []
    for text in _many(rows_home):
        file = tmp_path / "rows.html"
        file.write_text(text, encoding="utf-8")
        browser_page.goto(file.as_uri())
        expect(browser_page.locator(".lines tr")).to_have_count(3)
        expect(browser_page.locator(".more")).to_have_count(0)
        tables.append(browser_page.locator(".lines").evaluate("each => each.innerHTML"))
    assert tables[0] == tables[1]
    browser_page.locator(".lines tr").nth(2).click()
    expect(browser_page.locator("section.chosen h3")).to_contain_text("src/f2.cpp")


@pytest.mark.browser
def test_rows_in_a_browser(rows_home: Any, tmp_path: Path, shots: Path, browser_page: Page) -> None:
    file = tmp_path / "rows.html"
    file.write_text(_page(rows_home), encoding="utf-8")
    browser_page.goto(file.as_uri())
    now = browser_page.locator("article.now")
    expect(now).to_have_count(1)
    expect(now.locator("h2").nth(1)).to_have_text(f"{'a' * 12}-0000000000")
    expect(browser_page.locator("#before")).to_be_disabled()
    reading = now.locator(".reading")

    # Loss: what isn't scored is struck, what no document holds is slanted.
    browser_page.keyboard.press("j")
    expect(browser_page.locator("#rows output")).to_have_text("row 2 of 3")
    expect(now.locator("section.doc")).to_have_count(3)
    first = now.locator("section.doc").first.locator("pre")
    expect(
        first.locator("i").first
    ).to_be_attached()  # Tokens are painted as soon as they are in sight.
    struck = "".join(first.locator("s").all_text_contents())
    assert struck == "<|bos|>/// Adds two values.\n"
    assert "T add(T a, T b)" in "".join(first.locator("i").all_text_contents())
    expect(first.locator(".g")).to_have_text("<|bos|>")
    assert now.locator(".strip.documents rect").count() == 3
    expect(now.locator(".strip.loss path")).to_have_count(1)
    expect(now.locator("tbody tr")).to_have_count(3)
    expect(now.locator("tbody tr").nth(1)).to_contain_text("1c00000000")
    expect(now.locator("dl")).to_contain_text("of 256")

    # Pointing at a document lights it everywhere.
    now.locator("tbody tr").nth(2).hover()
    expect(now.locator(".mask .on, .strip .on, tr.on, section.on")).to_have_count(4)
    expect(now.locator(".mask .on")).to_have_attribute("data-d", "2")
    expect(browser_page.locator("#strip .on")).to_have_attribute("data-d", "2")
    box = now.locator(".mask").bounding_box()
    assert box
    browser_page.mouse.move(box["x"] + 20, box["y"] + 20)
    asks = int(256 * 20 / box["width"])
    expect(now.locator(".see output")).to_have_text(
        f"Token {asks} of document 0 attends to {asks + 1} tokens."
    )
    browser_page.mouse.move(box["x"] + 20, box["y"] + box["height"] - 3)
    expect(now.locator(".see output")).to_contain_text("is padding")
    first.locator("i").nth(4).hover()
    expect(reading).to_contain_text("into document 0 · scored")

    # The address keeps what is looked at.
    browser_page.keyboard.press("n")
    browser_page.keyboard.press("n")
    browser_page.wait_for_url(lambda url: url.endswith("#r1d1"))
    expect(now.locator("section.chosen h3")).to_contain_text("src/f1.cpp")
    expect(now.locator("section.chosen")).to_be_in_viewport()
    browser_page.keyboard.press("m")
    browser_page.reload()
    expect(now.locator("section.chosen h3")).to_contain_text("src/f1.cpp")
    expect(browser_page.locator("main")).to_have_attribute("data-show", "plain")
    browser_page.keyboard.press("Escape")
    expect(now.locator(".chosen")).to_have_count(0)
    browser_page.keyboard.press("m")
    expect(browser_page.locator("main")).to_have_attribute("data-show", "loss")

    for scheme in ("light", "dark"):
        browser_page.emulate_media(color_scheme=scheme)
        browser_page.mouse.move(5, 5)
        browser_page.evaluate("scrollTo(0, 0)")
        browser_page.screenshot(path=shots / f"rows-{scheme}.png", full_page=True)
    assert browser_page.evaluate("document.documentElement.scrollWidth") == 1280


@pytest.mark.browser
def test_documents_of_all_rows_are_searched_by_keyboard_and_the_address_keeps_it(
    rows_home: Any, tmp_path: Path, browser_page: Page
) -> None:
    file = tmp_path / "rows.html"
    file.write_text(
        page(
            "rows",
            "",
            rows_home.shown(),
            rows_home.loaded(),
            data_set=RowsDataSet(artefact="0123456789ab"),
        ),
        "utf-8",
    )
    browser_page.goto(file.as_uri())
    box, found = browser_page.get_by_role("searchbox"), browser_page.locator("#found")
    counted = browser_page.locator("#search output")
    expect(found).to_be_hidden()
    browser_page.keyboard.press("/")
    expect(box).to_be_focused()
    # Letters are text here, and not the page's keys.
    browser_page.keyboard.type("njk")
    expect(counted).to_have_text("0 of 5")
    browser_page.wait_for_url(lambda url: url.endswith("#r0&q=njk"))
    ids = [part.document_id for part in rows_home.shown()[1].documents]
    for asked, rows in (
        ("f2.cpp", ["row 2, 2", "row 3, 0"]),
        ("ARENA 1c000", ["row 2, 1"]),
        (ids[0][:9], ["row 1, 0", "row 2, 0"]),
        ("</script>1", ["row 2, 1"]),
        ("mit arena", ["row 1, 0", "row 2, 0", "row 2, 1", "row 2, 2", "row 3, 0"]),
    ):
        box.fill(asked)
        expect(found.locator("a i:first-child")).to_have_text(rows)
        expect(counted).to_have_text(f"{len(rows)} of 5")
    box.fill("f2.cpp")
    browser_page.keyboard.press("Enter")
    expect(found).to_be_hidden()
    now = browser_page.locator("article.now")
    expect(now.locator("section.chosen h3")).to_contain_text("src/f2.cpp")
    expect(now.locator("tr.miss")).to_have_count(2)
    browser_page.wait_for_url(lambda url: url.endswith("#r1d2&q=f2.cpp"))
    browser_page.keyboard.press("Enter")
    browser_page.wait_for_url(lambda url: url.endswith("#r2d0&q=f2.cpp"))
    browser_page.keyboard.press("Enter")
    # After the last comes the first.
    browser_page.wait_for_url(lambda url: url.endswith("#r1d2&q=f2.cpp"))

    browser_page.reload()
    expect(box).to_have_value("f2.cpp")
    expect(counted).to_have_text("2 of 5")
    expect(now.locator("section.chosen h3")).to_contain_text("src/f2.cpp")
    box.focus()
    browser_page.keyboard.press("ArrowDown")
    browser_page.keyboard.press("ArrowDown")
    browser_page.keyboard.press("Enter")
    browser_page.wait_for_url(lambda url: url.endswith("#r2d0&q=f2.cpp"))
    box.focus()
    browser_page.keyboard.press("Escape")
    expect(box).to_have_value("")
    expect(now.locator(".miss")).to_have_count(0)
    browser_page.wait_for_url(lambda url: url.endswith("#r2d0"))
    browser_page.keyboard.press("k")
    # The page's keys are the page's again.
    browser_page.wait_for_url(lambda url: url.endswith("#r1"))


@pytest.mark.browser
def test_what_is_not_on_the_page_is_looked_for_by_a_command(
    rows_home: Any, tmp_path: Path, browser_page: Page
) -> None:
    file = tmp_path / "rows.html"
    file.write_text(
        page(
            "rows",
            "",
            rows_home.shown(),
            rows_home.loaded(),
            data_set=RowsDataSet(artefact="0123456789ab"),
        ),
        "utf-8",
    )
    browser_page.goto(f"{file.as_uri()}#r0&q=it%27s%20%E0")
    browser_page.goto(f"{file.as_uri()}#r0&q=it%27s%20gone")
    browser_page.get_by_role("searchbox").focus()
    command = browser_page.locator("#found code")
    said = command.inner_text()
    assert shlex.split(said) == [
        *("curriculum", "inspect", "0123456789ab", "--path", "*it's*"),
        *("--rows", "6", "--html", "found.html"),
    ]
    browser_page.get_by_role("searchbox").fill("deadbeef")
    expect(command).to_have_text(
        "curriculum inspect 0123456789ab --commit deadbeef --rows 6 --html found.html"
    )


@pytest.mark.browser
def test_structure_of_rows_in_a_browser(
    rows_home: Any, tmp_path: Path, shots: Path, browser_page: Page
) -> None:
    file = tmp_path / "rows.html"
    file.write_text(_page(rows_home), encoding="utf-8")
    browser_page.goto(f"{file.as_uri()}#r2")
    main, now = browser_page.locator("main"), browser_page.locator("article.now")
    expect(main).to_have_attribute("data-show", "structure")
    expect(now.locator(".strip.structure rect")).to_have_count(2)
    expect(now.locator(".edges path")).to_have_count(1)
    assert "".join(now.locator("pre .k3").all_text_contents()) == "int f();\n"
    signature = now.locator("pre .k3").first.evaluate("each => getComputedStyle(each).color")
    body = now.locator("pre .k4").first.evaluate("each => getComputedStyle(each).color")
    assert signature != body
    now.locator("pre .k4").last.hover()
    expect(now.locator(".reading")).to_contain_text("func_body · level 1 · calls 1")
    expect(now.locator(".edges .lit")).to_have_count(1)
    expect(now.locator("pre .near").first).to_have_text("int")
    for scheme in ("light", "dark"):
        browser_page.emulate_media(color_scheme=scheme)
        browser_page.screenshot(path=shots / f"rows-structure-{scheme}.png", full_page=True)
    browser_page.locator("#legend").get_by_text("func_sig").click()
    browser_page.wait_for_url(lambda url: url.endswith("#r2&o=k3"))
    dimmed = now.locator("pre .k4").first.evaluate("each => getComputedStyle(each).color")
    assert dimmed != body
    browser_page.locator("#before").click()
    expect(main).to_have_attribute("data-show", "loss")
    expect(browser_page.get_by_role("button", name="Structure")).to_be_hidden()


@pytest.mark.browser
def test_without_its_script_the_page_is_a_readable_text(
    rows_home: Any, tmp_path: Path, browser: Browser
) -> None:
    file = tmp_path / "rows.html"
    file.write_text(_page(rows_home), encoding="utf-8")
    with browser.new_context(
        java_script_enabled=False, viewport={"width": 390, "height": 844}
    ) as phone:
        opened = phone.new_page()
        opened.set_default_timeout(PATIENCE_MS)
        opened.goto(file.as_uri())
        expect(opened.locator("article")).to_have_count(3)
        opened.locator("article").nth(1).get_by_role("link", name="2", exact=True).click()
        expect(opened.locator("#r1d2 pre")).to_be_in_viewport()
        expect(opened.locator("#r1d2 pre")).to_contain_text("int g() { f(); }")
        expect(opened.locator("#rows")).to_be_hidden()


def test_a_commit_leads_to_its_page_where_the_repository_has_an_https_url(rows_home: Any) -> None:
    shown = rows_home.shown()
    (name, *_) = {part.repository for row in shown for part in row.documents}
    commits = {part.commit for row in shown for part in row.documents}

    def links(url: str) -> set[str]:
        data_set = RowsDataSet(urls={name: url})
        read = Read(page("rows", "", shown, rows_home.loaded(), data_set=data_set))
        hrefs = {value for key, value in read.attributes if key == "href"}
        return {href for href in hrefs if not href.startswith("#")}

    assert links("https://github.com/fmtlib/fmt.git") == {
        f"https://github.com/fmtlib/fmt/commit/{commit}" for commit in commits
    }
    assert links("https://git.example.org/group/fmt/") == {
        f"https://git.example.org/group/fmt/commit/{commit}" for commit in commits
    }
    for other in ("javascript:alert(1)", "git@github.com:a/b", "https://me:secret@x.org/a", "/a"):
        assert links(other) == set()


@pytest.mark.browser
def test_the_position_of_a_row_counts_all_rows_of_its_data_set(
    rows_home: Any, tmp_path: Path, browser_page: Page
) -> None:
    file = tmp_path / "rows.html"
    data_set = RowsDataSet(rows=76)
    text = page("rows", "", rows_home.shown()[1:], rows_home.loaded(), data_set=data_set)
    file.write_text(text, encoding="utf-8")
    browser_page.goto(file.as_uri())
    expect(browser_page.locator("#rows output")).to_have_text("row 2 of 76 (2 shown)")
    browser_page.keyboard.press("j")
    expect(browser_page.locator("#rows output")).to_have_text("row 3 of 76 (2 shown)")
