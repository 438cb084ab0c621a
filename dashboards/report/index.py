"""The page that lists the reports of a workspace: what its address alone leads to."""

from collections.abc import Sequence

from dashboards import palette
from dashboards.html import escaped, policy

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Reports</title>
<style>
{palette}
body {{ max-width: 720px; margin: 40px auto; padding: 0 28px; background: var(--page); color: var(--ink); \
font: 14px/1.6 var(--sans); }}
a {{ color: inherit; }}
code {{ color: var(--soft); }}
</style>
<h1>Reports</h1>
{body}
"""
_NOTHING = "<p>No report is written yet: <code>curriculum report</code> writes those of all specialists.</p>"


def index(names: Sequence[str]) -> str:
    """The page, with a link to each of the files of these names, which need no quoting."""
    links = "".join(
        f'<li><a href="/{escaped(name)}">{escaped(name.removesuffix(".html"))}</a></li>\n'
        for name in names
    )
    body = f"<ul>\n{links}</ul>" if links else _NOTHING
    page = _PAGE.format(palette=palette.properties(), body=body, policy="{policy}")
    return page.replace("{policy}", policy(page), 1)
