"""Environment variables for proxies, set so that requests to servers on this machine bypass the proxies."""

import importlib.util
import os

LOOPBACK = ("127.0.0.1", "localhost")
KINDS = ("http", "https", "all")
"""Prefixes of the proxy variables that Prefect's client reads: http_proxy, HTTPS_PROXY, ALL_PROXY
…"""
SPOKEN = ("http", "https")
"""Proxy schemes that Prefect's client always supports."""
SOCKS = ("socks5", "socks5h")
"""Proxy schemes that Prefect's client supports if socksio is installed."""


def direct_to_loopback() -> dict[str, str]:
    """Return variables with which Python programs reach servers on this machine without a proxy.

    Prefect's client fails if a proxy has a scheme that it doesn't know. The lower-case variable of such a
    proxy is set to the empty string, so that Python ignores the proxy; the upper-case variable keeps it for
    git.
    """
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    listed = dict.fromkeys(filter(None, [*map(str.strip, given.split(",")), *LOOPBACK]))
    # A star means all hosts only if it is the whole value.
    hosts = "*" if "*" in listed else ",".join(listed)
    found = {"no_proxy": hosts, "NO_PROXY": hosts}
    for kind in KINDS:
        small, capital = f"{kind}_proxy", f"{kind.upper()}_PROXY"
        proxy = os.environ.get(small, os.environ.get(capital, ""))
        if proxy and not _is_usable(proxy):
            found |= {small: "", capital: proxy}
    return found


def without_blanks(variables: dict[str, str]) -> dict[str, str]:
    """Return variables without empty lower-case proxies, which git would prefer to upper-case ones."""
    blank = {f"{kind}_proxy" for kind in KINDS}
    return {name: value for name, value in variables.items() if value or name not in blank}


def _is_usable(proxy: str) -> bool:
    scheme = proxy.partition("://")[0].lower() if "://" in proxy else SPOKEN[0]
    has_socks = scheme in SOCKS and importlib.util.find_spec("socksio") is not None
    return scheme in SPOKEN or has_socks
