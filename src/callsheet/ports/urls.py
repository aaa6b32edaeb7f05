"""Validates the URL of a server that a user configured."""

from __future__ import annotations

from urllib.parse import urlsplit

from callsheet import lazy

_UNWRITTEN = lazy.pattern(r"[\s\x00-\x1f\x7f]")


def server_host(url: str) -> str:
    """The host of an http or https URL, in lower case; raises ValueError saying what is wrong.

    >>> server_host("https://Models.example:8080/v1")
    'models.example'
    >>> server_host("http://127.0.0.1:90401/v1")
    Traceback (most recent call last):
    ...
    ValueError: its host or port cannot be read (Port out of range 0-65535)
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"its host or port cannot be read ({error})") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("it must start with http:// or https:// and name a host")
    if _UNWRITTEN.search(url):
        raise ValueError("it must not contain spaces")
    if port == 0:
        raise ValueError("no server listens on port 0")
    return host
