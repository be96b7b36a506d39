"""HTTP messages for the fuzzer: questions in every form that HTTP allows, and things that are no HTTP at all.

Each well-formed message knows what its answer must look like. Each one carries an X-Request-ID of its own unless
that is what it is about.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadtests.chaos.oracle import target

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

BUDGETS = (16, 64, 256)
USERS = range(40)
TARGETS = [target(user, budget) for user in USERS for budget in BUDGETS]

_SUCCESS = frozenset({200})
_ANY_REFUSAL = frozenset({400, 404, 405, 411, 413, 414, 417, 422, 426, 431, 501, 505})


@dataclass(frozen=True)
class Message:
    """A request as bytes, and what may come back."""

    kind: str
    raw: bytes
    request_id: str | None  # what the answer must echo
    asked: str | None = None  # the target whose right answer must come if the status is 200
    statuses: frozenset[int] = _SUCCESS
    bodiless: bool = False  # an answer to HEAD
    may_close: bool = False  # the service may announce the end of the connection with the answer


def well_formed(rng: random.Random, number: int) -> Message:
    """Return some request that must be answered exactly once."""
    return rng.choice(_FORMS)(rng, f"r{number}-{rng.getrandbits(32):x}")


def plain(rng: random.Random, request_id: str, *headers: str, kind: str = "plain") -> Message:
    """Return the usual question with more headers."""
    asked = rng.choice(TARGETS)
    return Message(kind, _get(asked, request_id, *headers), request_id, asked)


def _get(asked: str, request_id: str, *headers: str, version: str = "1.1", method: str = "GET") -> bytes:
    lines = ["Host: 127.0.0.1", f"X-Request-ID: {request_id}", *headers]
    return f"{method} {asked} HTTP/{version}\r\n{''.join(line + chr(13) + chr(10) for line in lines)}\r\n".encode(
        "latin-1"
    )


def _with_header(*choices: str, kind: str, **rules: object) -> Callable[[random.Random, str], Message]:
    def make(rng: random.Random, request_id: str) -> Message:
        made = plain(rng, request_id, *rng.choice(choices).split("\n"), kind=kind)
        return Message(made.kind, made.raw, made.request_id, made.asked, **rules)  # type: ignore[arg-type]

    return make


def _odd_spelling(rng: random.Random, request_id: str) -> Message:
    asked = rng.choice(TARGETS)
    name = "".join(rng.choice((str.lower, str.upper))(letter) for letter in "x-request-id")
    space = rng.choice(("", " ", "\t", "   "))
    raw = f"GET {asked} HTTP/1.1\r\nhOST:{space}x{space}\r\n{name}:{space}{request_id}{space}\r\n\r\n"
    return Message("odd spelling", raw.encode(), request_id, asked)


def _many_headers(rng: random.Random, request_id: str) -> Message:
    lines = [f"X-Filler-{n}: {'v' * rng.randint(0, 200)}" for n in range(rng.randint(1, 60))]
    return plain(rng, request_id, *lines, kind="many headers")


def _eight_bit(rng: random.Random, request_id: str) -> Message:
    return plain(rng, request_id, "X-Any: \xfc\xe9\xff\x80", kind="8-bit header")


def _leading_lines(rng: random.Random, request_id: str) -> Message:
    made = plain(rng, request_id)
    return Message("empty lines before", b"\r\n" * rng.randint(1, 2) + made.raw, request_id, made.asked)


def _post(rng: random.Random, request_id: str) -> Message:
    asked, body = _json_question(rng)
    head = f"POST /recommend HTTP/1.1\r\nHost: x\r\nX-Request-ID: {request_id}\r\nContent-Type: application/json\r\n"
    return Message("POST", f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body, request_id, asked)


def _expecting(rng: random.Random, request_id: str) -> Message:
    asked, body = _json_question(rng)
    head = f"POST /recommend HTTP/1.1\r\nHost: x\r\nX-Request-ID: {request_id}\r\nContent-Type: application/json\r\n"
    raw = f"{head}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    return Message("Expect", raw, request_id, asked, may_close=True)


def _chunked(rng: random.Random, request_id: str) -> Message:
    asked, body = _json_question(rng)
    head = f"POST /recommend HTTP/1.1\r\nHost: x\r\nX-Request-ID: {request_id}\r\nContent-Type: application/json\r\n"
    raw = f"{head}Transfer-Encoding: {rng.choice(('chunked', 'Chunked'))}\r\n\r\n".encode()
    while body:
        piece, body = body[: (size := rng.randint(1, 40))], body[size:]
        raw += (
            f"{len(piece):{rng.choice('xX')}}".encode()
            + rng.choice((b"", b";a=b", b';q="x"'))
            + b"\r\n"
            + piece
            + b"\r\n"
        )
    trailers = rng.choice((b"", b"X-Trailer: t\r\n", b"X-Request-ID: of-a-trailer\r\nX-Priority: nobody\r\n"))
    return Message("chunked", raw + b"0\r\n" + trailers + b"\r\n", request_id, asked, may_close=True)


def _json_question(rng: random.Random) -> tuple[str, bytes]:
    user, budget = rng.choice(USERS), rng.choice(BUDGETS)
    return target(user, budget), json.dumps({"user_id": str(user), "budget": budget}).encode()


def _get_with_body(rng: random.Random, request_id: str) -> Message:
    made = plain(rng, request_id, "Content-Length: 5")
    return Message(
        "GET with a body", made.raw + rng.choice((b"hello", b"GET /", b"\r\n\r\n\r")), request_id, made.asked
    )


def _head(rng: random.Random, request_id: str) -> Message:
    raw = _get(rng.choice((*TARGETS[:5], "/health/live", "/nowhere")), request_id, method="HEAD")
    return Message("HEAD", raw, request_id, statuses=_SUCCESS | _ANY_REFUSAL, bodiless=True)


def _other_method(rng: random.Random, request_id: str) -> Message:
    method = rng.choice(("OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"))
    raw = _get(rng.choice(TARGETS), request_id, method=method)
    return Message(method, raw, request_id, statuses=_ANY_REFUSAL | {200, 204})


def _options_star(rng: random.Random, request_id: str) -> Message:
    del rng
    return Message("OPTIONS *", _get("*", request_id, method="OPTIONS"), request_id, statuses=_ANY_REFUSAL | {200, 204})


def _wrong_question(rng: random.Random, request_id: str) -> Message:
    asked = rng.choice(
        ("/recommend?user_id=", "/recommend?user_id=1&budget=0", "/recommend?user_id=%FF", "/recommend?")
    )
    return Message("wrong question", _get(asked, request_id), request_id, statuses=frozenset({422}))


def _other_call(rng: random.Random, request_id: str) -> Message:
    asked = rng.choice(("/health/live", "/model", "/budgets", "/metrics", "/similar?item_id=5&budget=32"))
    return Message("other call", _get(asked, request_id), request_id)


def _fragment(rng: random.Random, request_id: str) -> Message:
    asked = rng.choice(TARGETS)
    return Message("raw #", _get(asked + "#part", request_id), request_id, asked, _SUCCESS | {400, 422})


def _absolute(rng: random.Random, request_id: str) -> Message:
    asked = rng.choice(TARGETS)
    return Message(
        "absolute form", _get("http://127.0.0.1" + asked, request_id), request_id, asked, _SUCCESS | {400, 404}
    )


def _old_keep_alive(rng: random.Random, request_id: str) -> Message:
    asked = rng.choice(TARGETS)
    raw = _get(asked, request_id, "Connection: keep-alive", version="1.0")
    return Message("HTTP/1.0 keep-alive", raw, request_id, asked, may_close=True)


def _upgrade(rng: random.Random, request_id: str) -> Message:
    made = plain(
        rng,
        request_id,
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
    )
    return Message("Upgrade: h2c", made.raw, request_id, made.asked, may_close=True)


def _large_head(rng: random.Random, request_id: str) -> Message:
    """Stay below the limit of 64 KiB, though not by much."""
    return plain(rng, request_id, *(f"X-Large-{n}: {'l' * 5000}" for n in range(rng.randint(2, 12))), kind="large head")


_FORMS: tuple[Callable[[random.Random, str], Message], ...] = (
    plain,
    plain,
    plain,
    _with_header("Connection: keep-alive", "Connection: Keep-Alive", "Connection: x-nothing", kind="Connection"),
    _with_header("Proxy-Connection: keep-alive", "Keep-Alive: timeout=5", kind="Proxy-Connection"),
    _with_header("Proxy-Connection: close", kind="Proxy-Connection: close", may_close=True),
    _with_header("X-Priority: batch", "X-Priority:interactive", "Accept: */*\nCookie: a=b", kind="known headers"),
    _with_header("X-Request-Deadline-Ms: 60000", kind="deadline"),
    _with_header("Origin: http://127.0.0.1", "Origin: null", kind="Origin"),
    _with_header("Content-Length: 0", kind="Content-Length: 0"),
    _with_header("Upgrade: websocket\nConnection: Upgrade", kind="Upgrade: websocket", may_close=True),
    _odd_spelling,
    _many_headers,
    _eight_bit,
    _leading_lines,
    _post,
    _post,
    _expecting,
    _chunked,
    _chunked,
    _get_with_body,
    _head,
    _other_method,
    _options_star,
    _wrong_question,
    _other_call,
    _fragment,
    _absolute,
    _old_keep_alive,
    _upgrade,
    _large_head,
)

_START = b"GET /recommend?user_id=1&budget=16 HTTP/1.1\r\nHost: x\r\n"
_POST = b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

# Whoever sends one of these gets a 4xx, or at least the end of the connection.
NOT_HTTP: dict[str, bytes] = {
    "binary": bytes(range(256)),
    "TLS": bytes.fromhex("16030100c8010000c40303") + b"\0" * 60,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0",
    "version 9": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "unknown method": b"BREW /pot HTTP/1.1\r\nHost: x\r\n\r\n",
    "space in the target": b"GET /recommend?user_id=1 2 HTTP/1.1\r\nHost: x\r\n\r\n",
    "NUL in the target": b"GET /recommend?user_id=1\0 HTTP/1.1\r\nHost: x\r\n\r\n",
    "NUL in a header": _START + b"X-A: a\0b\r\n\r\n",
    "space before the colon": _START + b"X-A : b\r\n\r\n",
    "no colon": _START + b"nonsense\r\n\r\n",
    "no name": _START + b": b\r\n\r\n",
    "folded header": _START + b"X-A: a\r\n b\r\n\r\n",
    "bare LF": b"GET /recommend?user_id=1&budget=16 HTTP/1.1\nHost: x\n\n",
    "bare CR": _START + b"X-A: a\rX-B: b\r\n\r\n",
    "8-bit name": _START + b"X-\xff: b\r\n\r\n",
    "8-bit target": b"GET /recommend?user_id=\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "Content-Length -1": _POST + b"Content-Length: -1\r\n\r\n{}",
    "Content-Length +2": _POST + b"Content-Length: +2\r\n\r\n{}",
    "Content-Length 0x2": _POST + b"Content-Length: 0x2\r\n\r\n{}",
    "Content-Length 2, 2": _POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "Content-Length twice": _POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "Content-Length of 30 digits": _POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",
    "length and chunked": _POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "unknown coding": _POST + b"Transfer-Encoding: gzip\r\n\r\n{}",
    "chunked twice": _POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunk of no size": _POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n",
    "chunk of 20 digits": _POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 20 + b"\r\n{}\r\n0\r\n\r\n",
    "head of 100 KiB": _START + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n",
    "target of 100 KiB": b"GET /recommend?user_id=" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "2,000 headers": _START + b"".join(b"X-%d: some value of a header\r\n" % n for n in range(3_000)) + b"\r\n",
    "CONNECT": b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: x\r\n\r\n\0\1\2\3",
}


def mutated(rng: random.Random, raw: bytes) -> bytes:
    """Return a message with some bytes altered, dropped, doubled or moved."""
    data = bytearray(raw)
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(data) + 1)
        end = min(len(data), place + rng.randint(1, 12))
        match rng.randrange(6):
            case 0:
                data[place:end] = rng.randbytes(end - place)
            case 1:
                del data[place:end]
            case 2:
                data[place:place] = data[place:end]
            case 3:
                data[place:place] = rng.choice((b"\r\n", b"\n", b"\0", b" ", b":", b"\r\n\r\n", b"\xff", b"%00", b"#"))
            case 4:
                data[place:place] = rng.choice(
                    (b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: y\r\n")
                )
            case 5:
                del data[place:]
    return bytes(data)
