"""The reader of plain heads against httptools, on millions of byte strings: `make fuzz`.

    python -m loadtests.chaos.reader --millions 2 --seed 7

Heads of requests are cut, joined and altered at random, most of them a little, so that many are still heads. Whatever
`service.front.head.read_plain` accepts, httptools must accept as exactly one request and read in the same way.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

import httptools

from service.front.head import read_plain

READ = frozenset((b"authorization", b"origin", b"x-api-key", b"x-priority", b"x-request-deadline-ms", b"x-request-id"))

_TARGETS = (
    b"/recommend?user_id=42&budget=64", b"/recommend?user_id=42", b"/recommend?", b"/recommend", b"/recommend?a=%20&b",
    b"/recommend?user_id=42#x", b"http://h/recommend?user_id=1", b'/recommend?"<>{}|^`', b"*",
)  # fmt: skip
_LINES = (
    b"Host: x", b"host:x", b"User-Agent: curl/8.0", b"X-Request-ID: mine", b"x-request-id:\t mine \t",
    b"X-Priority: batch", b"X-Request-Deadline-Ms: 5", b"X-API-Key: secret", b"Authorization: Bearer secret",
    b"Origin: https://shop.example", b"Connection: keep-alive", b"Connection: close", b"Connection: Upgrade",
    b"Upgrade: h2c", b"Content-Length: 0", b"Content-Length: 5", b"Transfer-Encoding: chunked",
    b"Expect: 100-continue", b"Proxy-Connection: close", b"TE: trailers", b"X-Any: \xc3\xbc\xff",
    b"Cookie: a=b; c=d", b"X-Forwarded-For: 10.0.0.1", b"Keep-Alive: timeout=5", b": empty", b" folded",
)  # fmt: skip


class Parsed:
    """A request as uvicorn's parser reads it; raises what httptools raises."""

    def __init__(self, head: bytes) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.messages = 0
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(head)
        self.method = parser.get_method()
        self.version = parser.get_http_version()
        self.keeps_alive = parser.should_keep_alive()
        parsed = httptools.parse_url(self.url)
        self.path, self.query = parsed.path, parsed.query or b""

    def on_url(self, url: bytes) -> None:
        """Collect the target."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header."""
        self.headers.append((name.lower(), value))

    def on_message_complete(self) -> None:
        """Count a whole request."""
        self.messages += 1


def agrees(head: bytes) -> bool:
    """Compare both readings of a head; return whether it was plain. AssertionError where they differ."""
    plain = read_plain(head)
    if plain is None:
        return False
    parsed = Parsed(head)
    read = [(name, value.strip(b"\t ")) for name, value in parsed.headers if name in READ]
    seen = (parsed.messages, parsed.method, parsed.version, parsed.path, parsed.keeps_alive, parsed.query, read)
    expected = (1, b"GET", "1.1", b"/recommend", True, *plain)
    assert seen == expected, f"{head!r}: httptools reads {seen}, we read {expected}"
    return True


def make_head(rng: random.Random) -> bytes:
    """Return something like a head."""
    method = b"GET" if rng.random() < 0.9 else rng.choice((b"get", b"POST", b"HEAD", b""))
    version = b"HTTP/1.1" if rng.random() < 0.9 else rng.choice((b"HTTP/1.0", b"HTTP/2.0", b"http/1.1"))
    lines = [b" ".join((method, rng.choice(_TARGETS), version)), *rng.choices(_LINES, k=rng.randint(0, 5))]
    head = bytearray(b"\r\n".join(lines) + b"\r\n\r\n")
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        position = rng.randrange(len(head) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            head.insert(position, rng.randrange(256))
        elif kind == 1 and head:
            head[position % len(head)] = rng.randrange(256)
        elif kind == 2:
            del head[position : position + rng.randint(1, 3)]
        else:
            piece = rng.choice(_LINES)
            head[position:position] = piece + rng.choice((b"\r\n", b"\n", b""))
    return bytes(head)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    began, total, plain = time.perf_counter(), int(options.millions * 1e6), 0
    for _ in range(total):
        plain += agrees(make_head(rng))
    if not plain:
        sys.exit("no head was plain, so nothing was compared; the maker of heads is broken.")
    seconds = time.perf_counter() - began
    print(f"{total:,} heads in {seconds:.0f} s, {plain:,} of them plain and read alike; seed {options.seed}")


if __name__ == "__main__":
    main()
