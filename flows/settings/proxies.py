"""Proxies of the environment: requests to servers on this machine go through none."""

import importlib.util
import os

LOOPBACK = ("127.0.0.1", "localhost")
KINDS = ("http", "https", "all")
"""Parts of the variables' names that Prefect's client reads: http_proxy, HTTPS_PROXY, ALL_PROXY …"""
SPOKEN = ("http", "https")
"""Schemes of proxies that Prefect's client can always use."""
SOCKS = ("socks5", "socks5h")
"""Schemes that it can use where socksio is installed."""


def direct_to_loopback() -> dict[str, str]:
    """Return the variables with which programs in Python reach servers on this machine without a proxy.

    Prefect's client can't even be made beside a proxy whose scheme it doesn't know. Such a proxy keeps its
    name in capitals, for git, and gets an empty one in small letters, by which Python knows of no proxy.
    """
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    listed = dict.fromkeys(filter(None, [*map(str.strip, given.split(",")), *LOOPBACK]))
    # A star stands for all hosts only where it stands alone.
    hosts = "*" if "*" in listed else ",".join(listed)
    found = {"no_proxy": hosts, "NO_PROXY": hosts}
    for kind in KINDS:
        small, capital = f"{kind}_proxy", f"{kind.upper()}_PROXY"
        proxy = os.environ.get(small, os.environ.get(capital, ""))
        if proxy and not _is_usable(proxy):
            found |= {small: "", capital: proxy}
    return found


def without_blanks(variables: dict[str, str]) -> dict[str, str]:
    """Return variables without the empty proxies in small letters, which hide those in capitals from git."""
    blank = {f"{kind}_proxy" for kind in KINDS}
    return {name: value for name, value in variables.items() if value or name not in blank}


def _is_usable(proxy: str) -> bool:
    scheme = proxy.partition("://")[0].lower() if "://" in proxy else SPOKEN[0]
    has_socks = scheme in SOCKS and importlib.util.find_spec("socksio") is not None
    return scheme in SPOKEN or has_socks
