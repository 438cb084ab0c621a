"""The documents of a row: a line each, and each one's text with where it came from."""

import datetime
from collections.abc import Iterator, Sequence

from flows.lines import number, percent
from flows.page.colours import document as colour
from flows.page.rows.read import Part, Place, Whence
from flows.template import escaped

COMMIT_DIGITS = 10
MOST_PLACES = 40
"""Files of a document that are listed."""


def table(parts: Sequence[Part], place: str) -> str:
    """A line a document; it links to its text, whose place begins with `place`."""
    heads = (
        '<th class="n">#</th><th>repository</th><th>commit</th><th>path</th><th>licence</th>'
        '<th class="n">from</th><th class="n">tokens</th><th class="n">scored</th>'
    )
    lines = "".join(_line(part, at, place) for at, part in enumerate(parts))
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="Documents"><table><thead><tr>{heads}'
        f"</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _line(part: Part, at: int, place: str) -> str:
    first = part.whence.first
    path = escaped(first.path or part.document_id)
    return (
        f'<tr class="{colour(at)}" data-d="{at}"><th scope="row"><a href="#{place}d{at}">{at}</a></th>'
        f"<td>{escaped(first.repository)}</td><td><code>{escaped(first.commit[:COMMIT_DIGITS])}</code></td>"
        f"<td><bdi>{path}</bdi></td><td>{escaped(part.whence.licence or '')}</td>"
        f"<td>{part.start:,}</td><td>{part.tokens:,}</td><td>{percent(part.scored / part.tokens)}</td></tr>"
    )


def texts(parts: Sequence[Part], said: Sequence[str], place: str) -> Iterator[str]:
    """Each document's text as it is trained on."""
    for at, (part, text) in enumerate(zip(parts, said, strict=True)):
        # The parser drops one line feed after <pre>.
        yield (
            f'<section class="doc {colour(at)}" data-d="{at}" id="{place}d{at}">{_head(part, at)}'
            f"<pre>\n{escaped(text)}</pre></section>"
        )


def _head(part: Part, at: int) -> str:
    first = part.whence.first
    name = escaped(first.path or part.document_id or "unknown")
    facts = " ".join(f"<span>{escaped(each)}</span>" for each in _facts(part))
    return f"<h3><b>{at}</b>{name}</h3><p>{facts}</p>{_whence(part)}"


def _facts(part: Part) -> Iterator[str]:
    first, whence = part.whence.first, part.whence
    if first.commit:
        yield f"{first.repository} at {first.commit}"
    else:
        yield "its documents artefact is gone"
    if whence.timestamp:
        then = datetime.datetime.fromtimestamp(whence.timestamp, datetime.UTC)
        yield f"{then.day} {then:%b %Y}"
    if whence.licence:
        yield whence.licence
    yield f"{number(part.tokens, 'token')} from {part.start:,}"
    if part.scored < part.tokens - 1:
        yield f"{part.scored:,} scored"
    if 0 < part.last_byte - part.first_byte < whence.num_bytes:
        yield f"bytes {part.first_byte:,} to {part.last_byte:,} of {whence.num_bytes:,}"


def _whence(part: Part) -> str:
    """The document's id and all that it was made of, folded away."""
    places = _merged(part.whence)
    if not part.document_id:
        return ""
    listed = "".join(
        f"<li><code>{escaped(each.commit[:COMMIT_DIGITS])}</code> {escaped(each.repository)} "
        f"<b>{escaped(each.path)}</b> <i>{each.num_bytes:,} bytes</i></li>"
        for each in places[:MOST_PLACES]
    )
    rest = len(places) - MOST_PLACES
    more = f"<li>and {rest:,} more</li>" if rest > 0 else ""
    return (
        f"<details><summary>made of {number(len(places), 'file')}</summary>"
        f"<p>document <code>{escaped(part.document_id)}</code></p><ul>{listed}{more}</ul></details>"
    )


def _merged(whence: Whence) -> list[Place]:
    """Places of one file at one commit as one, in the order in which they came first."""
    sizes: dict[tuple[str, str, str], int] = {}
    for each in whence.places:
        name = (each.repository, each.commit, each.path)
        sizes[name] = sizes.get(name, 0) + each.num_bytes
    return [
        Place(repository=repository, commit=commit, path=path, num_bytes=size)
        for (repository, commit, path), size in sizes.items()
    ]
