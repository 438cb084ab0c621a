"""Web addresses of commits in repositories that are cloned from an https url."""

import re
from collections.abc import Iterable

from schemas.corpus import CorpusSpec

_WEB = re.compile(r"https://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[A-Za-z0-9._~-]+)+/?", re.ASCII)
"""Pattern of web addresses without user name, query and escapes."""
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)


def repository_urls(corpora: Iterable[CorpusSpec]) -> dict[str, str]:
    """Return the urls of the repositories in some corpora, by name, without repositories that have none."""
    pins = (pin for corpus in corpora for pin in corpus.repositories)
    return {pin.name: pin.url for pin in pins if pin.url is not None}


def commit_url(repository: str | None, commit: str) -> str:
    """Return the address of a commit's page on GitHub, GitLab, Gitea or Forgejo; empty without an https url.

    `repository` is the url of the repository.

    >>> commit_url("https://github.com/fmtlib/fmt.git", "a" * 40)[:47]
    'https://github.com/fmtlib/fmt/commit/aaaaaaaaaa'
    >>> commit_url("javascript:alert(1)", "a" * 40), commit_url(None, "a" * 40)
    ('', '')
    """
    if repository is None or not _WEB.fullmatch(repository) or not _COMMIT.fullmatch(commit):
        return ""
    return f"{repository.rstrip('/').removesuffix('.git')}/commit/{commit}"
