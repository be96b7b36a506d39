"""The head of a request: request line and headers, read by a pure function.

`read_plain` accepts only what it is sure about and reads it as httptools would, which hypothesis checks; `read_head`
asks httptools about everything else.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import httptools

# Headers that change how a request is framed or answered: with one of them a request is not plain.
_FRAMING = rb"connection|content-length|expect|http2-settings|proxy-connection|te|trailer|transfer-encoding|upgrade"
# Headers that a plain question may carry and that somebody reads.
_READ = rb"authorization|origin|x-api-key|x-priority|x-request-deadline-ms|x-request-id"

# The headers with the line feed before them, so that each begins behind one. What has fitted is not tried in another
# way (`++`): what a line may consist of and what may follow it have no byte in common.
_PLAIN = re.compile(
    rb"GET /recommend\?([!$-~]*+) HTTP/1\.1\r"
    rb"(\n(?:[A-Za-z0-9!#$%&'*+.^_`|~-]++:[\t\x20-\x7e\x80-\xff]*+\r\n)++)\r\n"
).fullmatch
_NOTED = re.compile(rb"\n(" + _READ + rb"|" + _FRAMING + rb"):([^\r]*)", re.IGNORECASE).findall
_UPGRADE = re.compile(rb"\nUpgrade[ \t]*:[^\n]*\n", re.IGNORECASE).sub
_IS_READ = frozenset(_READ.split(b"|"))
_BLANK = b"\t "


class Head(NamedTuple):
    """Any other head. `length` is that of the body, None if the body has to tell where it ends."""

    method: bytes
    length: int | None
    n_headers: int
    expects_continue: bool
    keeps_alive: bool


def read_plain(head: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]] | None:
    """Return the query of a plain `GET /recommend?query` and those of its headers that somebody reads.

    None for anything else. `head` ends with the empty line.
    """
    plain = _PLAIN(head)
    if plain is None:
        return None
    query, block = plain.groups()
    headers = []
    for name, value in _NOTED(block):
        lower = name.lower()
        stripped = value.strip(_BLANK)
        if lower in _IS_READ:
            headers.append((lower, stripped))
        elif lower != b"connection" or stripped.lower() != b"keep-alive":
            return None
    return query, headers


class _Collector:
    """What httptools calls while it parses."""

    def __init__(self) -> None:
        self.url = b""
        self.length = 0
        self.n_headers = 0
        self.chunked = False
        self.expects_continue = False
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.n_headers += 1
        lower = name.lower()
        if lower == b"content-length":
            self.length = int(value)
        elif lower == b"transfer-encoding":
            self.chunked = True
        elif lower == b"expect":
            self.expects_continue = True

    def on_headers_complete(self) -> None:
        self.complete = True


def without_upgrade(head: bytes) -> bytes:
    """Return the head without an offer to speak another protocol, which nobody here takes.

    httptools would take the body of such a request for what is spoken next, and read it as another request.
    """
    return _UPGRADE(b"\n", head) if b"pgrade" in head.lower() else head


def read_head(head: bytes) -> Head | None:
    """Return what is known of a request by its head, None if it is not well-formed."""
    collector = _Collector()
    parser = httptools.HttpRequestParser(collector)
    try:
        parser.feed_data(head)
        if not collector.complete or httptools.parse_url(collector.url).path is None:
            return None
    except (httptools.HttpParserError, httptools.HttpParserUpgrade, ValueError):
        # What still counts as an upgrade is CONNECT, and this is no proxy.
        return None
    return Head(
        parser.get_method(),
        None if collector.chunked else collector.length,
        collector.n_headers,
        collector.expects_continue,
        parser.should_keep_alive(),
    )
