"""Text of a page as a browser would show it."""

from html.parser import HTMLParser


class Read(HTMLParser):
    """A page's tags and attributes, and what it says.

    texts are what stands in each <pre>, lines what stands in each item of an ordered list; said is all the
    rest that can be read, in pieces of one line.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.lines: list[str] = []
        self._said: list[str] = []
        self._tag = ""
        self._in: list[str] = []
        self.feed(page)
        self.close()

    @property
    def said(self) -> str:
        """All that can be read outside texts and lines."""
        return " ".join(self._said)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._tag = tag
        if tag in ("pre", "ol"):
            self._in.append(tag)
        if tag == "pre":
            self.texts.append("")
        if tag == "li" and self._in:
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""
        if tag in ("pre", "ol"):
            self._in.pop()
        if tag == "pre":
            assert self.texts[-1].startswith("\n"), "the parser would drop a line feed of the text"
            self.texts[-1] = self.texts[-1][1:]

    def handle_data(self, data: str) -> None:
        if self._in == ["pre"]:
            self.texts[-1] += data
        elif self._in and data.strip():
            self.lines[-1] += data.strip()
        elif self._tag not in ("style", "script") and data.strip():
            self._said.append(" ".join(data.split()))
