"""Prefect's pages, confined to their own server by a content security policy."""

import re
from pathlib import Path

from flows import settings
from flows.serving.children import ServeError

_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src '
    "'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self' "
    'http://{server} ws://{server} data: blob:">'
)


def confine(workspace: Path, port: int) -> None:
    """Let the pages talk to this server and to nobody else; their client analytics has no switch.

    Raises:
        ServeError: where the pages aren't where this version of Prefect puts them.
    """
    files = sorted(settings.pages_folder(workspace).glob("*/index.html"))
    if not files:
        raise ServeError(
            str(settings.pages_folder(workspace)),
            cause="the server's pages aren't there",
            cure="Install the versions of requirements.lock",
        )
    policy = _POLICY.format(server=f"{settings.HOST}:{port}")
    for file in files:
        before, head, after = file.read_text().partition("<head>")
        after = re.sub(r"^<meta http-equiv=[^>]*>", "", after)
        file.write_text(f"{before}{head}{policy}{after}")
