"""Interpretation of a repository's url: a folder on this machine, or a remote repository.

Git treats most texts as paths: it resolves relative paths against its own folder, ignores the host of a file
url, and decodes %41 only in urls. So every url is parsed here once, as git would parse it. Git then gets
local folders only in the form that `file_url` gives. Ambiguous forms are refused.
"""

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from schemas.corpus import RepositorySpec
from schemas.errors import CorpusError

_URL = re.compile(r"(file|git|https?|ssh)://([^/]*)(.*)")
_OF_SSH = re.compile(r"(?:[\w.-]+@)?(\w[\w.-]*):(?!:|//)\S.*")
"""Pattern of the short form of an ssh url, such as git@example.org:group/name.git."""
_TRANSPORTS = ("file", "git", "http", "https", "ssh")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]|%00")
_OWN_HOSTS = ("", "localhost")
_CURE = (
    "Write https://host/path, ssh://host/path or git://host/path; for a repository on this machine use "
    "`path:` or file:///absolute/path"
)


def local_folder(spec: RepositorySpec) -> Path | None:
    """Return the folder on this machine to which a repository's url refers; None for a remote repository.

    Raises:
        CorpusError: unless the text is an absolute path or a url with an allowed transport.
    """
    url = spec.url or ""
    if _CONTROL.search(url):
        raise _refused(spec, "it contains a control character")
    if url.startswith("/"):
        return Path(url)
    parts = _URL.fullmatch(url)
    if parts is None:
        short = _OF_SSH.fullmatch(url)
        if short is None or short[1] in _TRANSPORTS:
            raise _refused(spec, "it is neither an absolute path nor a url that git may clone")
        return None
    transport, host, path = parts.groups()
    if transport != "file":
        if ":" in host.rpartition("@")[0]:
            raise CorpusError(
                spec.title("url"),
                f"a password for {host.rpartition('@')[2]}",
                cause="other users of this machine can see it in git's command line, and the clone stores it",
                cure="Remove it from the url; set a credential helper in git's settings, or use ssh",
            )
        if not host or host.startswith("-"):
            raise _refused(spec, "it has no host")
        return None
    if host not in _OWN_HOSTS or not path:
        raise _refused(spec, "a file url needs an absolute path and no host")
    return Path(os.fsdecode(unquote_to_bytes(path)))


def file_url(folder: Path) -> str:
    """Return a file url that git resolves to `folder`, whatever characters the path contains.

    >>> file_url(Path("/tmp/50%/a b"))
    'file:///tmp/50%25/a%20b'
    """
    return f"file://{quote(os.fsencode(folder))}"


def _refused(spec: RepositorySpec, cause: str) -> CorpusError:
    return CorpusError(spec.title("url"), f"url = {spec.url!r}", cause=cause, cure=_CURE)
