"""Size of the page of a row with 65,536 tokens, and the time in which Chromium draws it.

    python benchmarks/pages.py [FOLDER] [--tokens 65536] [--rounds 5] [--chromium chromium]

The tokens of the row are those of the Python files in FOLDER (by default this repository), with a tokenizer
trained on them. The row is divided into few long documents or many short documents, and once has structure:
a chunk per 40 tokens and an edge per two chunks. Every document consists of four files.

The drawing time is measured from the start of the navigation until the second frame after the page has
loaded. In this frame, everything visible is painted. The computing time is the CPU time of the page's main
thread, which doesn't depend on other work on the machine. Both are medians over fresh pages.
"""

import argparse
import hashlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from curriculum.inspection.row_view import DocumentInRow, FileRange, RowChunk, RowView
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.train import train_tokenizer
from dashboards.rows.row_page import page
from schemas.structure import StructureEdge

CHUNK = 40
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
DRAWN = """() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path(__file__).parents[1],
        help="folder of the Python files",
    )
    parser.add_argument("--tokens", type=int, default=65_536, help="tokens of the row")
    parser.add_argument("--rounds", type=int, default=5, help="number of fresh pages")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="path of Chromium")
    options = parser.parse_args()
    texts = [
        file.read_text()
        for file in sorted(options.folder.rglob("*.py"))
        if ".venv" not in file.parts
    ]
    tokenizer = Tokenizer.parse(train_tokenizer(texts, vocab_size=16_384).decode())
    ids = tokenizer.encode("\n".join(texts)).tolist()[: options.tokens]
    assert len(ids) == options.tokens, f"{options.folder} has only {len(ids):,} tokens"
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=FLAGS)
        for title, documents, structured in (
            ("8 documents", 8, False),
            ("220 documents", 220, False),
            ("1,000 documents", 1000, False),
            ("220 documents with structure", 220, True),
        ):
            begin = time.process_time()
            text = page("a row", "", [_row(ids, documents, structured=structured)], tokenizer)
            took = time.process_time() - begin
            file = Path(folder) / "page.html"
            file.write_text(text, encoding="utf-8")
            drawn = [_time_to_draw(browser, file) for _ in range(options.rounds)]
            wall, computed = (statistics.median(values) for values in zip(*drawn, strict=True))
            print(
                f"{title:30} {len(text.encode()) / 1e3:6.0f} kB, written in {took:.2f} CPU s, "
                f"drawn in {wall:.0f} ms, of which {computed:.0f} ms computing"
            )
        browser.close()


def _time_to_draw(browser: Browser, file: Path) -> tuple[float, float]:
    """Return the milliseconds until the page is drawn, and the CPU milliseconds of its main thread."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(file.as_uri())
    drawn = float(page.evaluate(DRAWN))
    measured = session.send("Performance.getMetrics")["metrics"]
    computed = next(metric["value"] for metric in measured if metric["name"] == "TaskDuration")
    page.close()
    return drawn, 1000 * computed


def _row(ids: list[int], documents: int, *, structured: bool) -> RowView:
    length = len(ids)
    random = np.random.default_rng(17)
    shares = random.lognormal(sigma=1.1, size=documents)
    starts = np.unique(
        np.concatenate([[0], np.cumsum(shares)[:-1] / shares.sum() * length]).astype(int)
    )
    spans = list(zip(starts.tolist(), [*starts[1:].tolist(), length], strict=True))
    chunks = tuple(_chunks(spans)) if structured else ()
    return RowView(
        pack_id="0123456789ab-0000000042",
        input_ids=ids,
        loss_mask=[int(is_scored) for is_scored in random.random(length) < 0.97],
        doc_starts=starts.tolist(),
        valid_token_count=length,
        loss_token_count=int(0.97 * length),
        document_ids=[f"{at:032x}" for at in range(len(starts))],
        domain="general",
        attention_pairs=1,
        context_histogram=(1, 1, 1, 1),
        structure_ids=random.integers(1, 10, length // 6 + 1).repeat(6)[:length].tolist()
        if structured
        else [],
        chunk_boundaries=chunks,
        call_edges=tuple(
            StructureEdge(source=at, target=int(random.integers(at + 1)), label=1)
            for at in range(1, len(chunks), 2)
        ),
        documents=tuple(_document(at, start, end) for at, (start, end) in enumerate(spans)),
    )


def _document(number: int, start: int, end: int) -> DocumentInRow:
    files = [
        FileRange(
            repository="llvm-project",
            commit=hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest(),
            path=f"llvm/lib/Support/File{4 * number + at}.cpp",
            num_bytes=1234,
        )
        for at in range(4)
    ]
    return DocumentInRow(
        repository=files[0].repository,
        commit=files[0].commit,
        path=files[0].path,
        licence="Apache-2.0",
        timestamp=1_700_000_000,
        num_bytes=99_999,
        files=tuple(files),
        document_id=f"{start:032x}",
        start=start,
        tokens=end - start,
        scored=end - start,
        first_byte=0,
        last_byte=99_999,
    )


def _chunks(spans: list[tuple[int, int]]) -> Iterator[RowChunk]:
    for doc, (start, end) in enumerate(spans):
        for at in range(start, end - CHUNK + 1, CHUNK):
            yield RowChunk(start=at, end=at + CHUNK, kind=4, dep_level=2, doc=doc)


if __name__ == "__main__":
    main()
