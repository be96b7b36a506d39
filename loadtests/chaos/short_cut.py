"""The short cut before the application is only quicker: the same requests get the same answers without it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loadtests.chaos import models
from loadtests.chaos.oracle import timeless
from loadtests.chaos.serving import Service
from loadtests.chaos.wire import BrokenAnswerError, Wire

if TYPE_CHECKING:
    import random

    from loadtests.chaos.trial import Trial
    from loadtests.chaos.wire import Answer

_KEY = "key-of-the-shop"
_ORIGIN = "https://shop.example"
# What the clock, the process and chance decide; the length counts the digits of search_us.
_MASKED = {"date", "x-request-id", "content-length"}


@dataclass(frozen=True)
class Setup:
    """Settings under which the two services are compared."""

    name: str
    settings: dict[str, object] = field(default_factory=dict)


SETUPS = (
    Setup("plain"),
    Setup("keys", {"api_keys": f"shop:{_KEY}", "admin_key": "key-of-the-boss"}),
    Setup("origins", {"cors_origins": _ORIGIN}),
    Setup("any origin", {"cors_origins": "*"}),
    Setup("strict", {"unknown_user": "not_found", "header_limit": 4096, "max_budget": 512, "max_top_k": 20}),
)

_USERS = ("1", "2", "99", "nobody", "%31", "1+2", "a%2Fb", "%FF", "", "1#x", "1;2", "\xfc", "-1", "x" * 201)
_REST = (
    "", "&budget=64", "&budget=64&top_k=3", "&top_k=3", "&budget=0", "&budget=007", "&budget=1e3", "&budget=100000",
    "&budget=64&budget=64", "&budget=1000000000", "&top_k=0", "&top_k=21", "&top_k=1001", "&bugdet=3", "&", "&&",
    "&deadline_ms=60000", "&deadline_ms=0", "&deadline_ms=nan", "&target_recall=0.9", "&target_recall=2",
    "&exclude=1,2,3", "&exclude=", "&exclude_seen=false", "&exclude_seen=maybe", "&budget=64#top_k=3", "#",
    "&budget=64 ",
)  # fmt: skip
_HEADERS = (
    "", "", "", "Accept: */*", "X-Request-ID: mine", "X-Request-ID: " + "x" * 300, "X-Request-ID: a\xffb",
    "X-Priority: batch", "X-Priority: nobody", "X-Priority: interactive\r\nX-Priority: nobody", "X-Priority:batch ",
    "X-Request-Deadline-Ms: 60000", "X-Request-Deadline-Ms: no",
    "X-Request-Deadline-Ms: 60000\r\nX-Request-Deadline-Ms: x",
    f"X-API-Key: {_KEY}", f"Authorization: Bearer {_KEY}", "X-API-Key: wrong-wrong", f"x-api-key:{_KEY}  ",
    f"X-API-Key: {_KEY}\r\nX-API-Key: wrong-wrong", "Authorization: Basic abc",
    f"Origin: {_ORIGIN}", "Origin: https://evil.example", "Origin: null", f"Origin: {_ORIGIN}\r\nX-API-Key: {_KEY}",
    "Connection: keep-alive", "Connection: close", "Connection: Keep-Alive, x", "Proxy-Connection: close",
    "Proxy-Connection: keep-alive", "Upgrade: h2c\r\nConnection: Upgrade", "Upgrade: h2c", "Expect: 100-continue",
    "Content-Length: 0", "Transfer-Encoding: identity", "Keep-Alive: timeout=1", 'Cookie: a=b; c="d"', "X-\xff: a",
    "X-Forwarded-For: 10.0.0.1", "Host: other", "X-Filler: " + "f" * 5000, "Referer: http://x/#y",
)  # fmt: skip


def run(trial: Trial) -> None:
    folder = models.small(trial, "models", "v1")
    each = max(200, min(20_000, trial.amounts.requests // 10 // len(SETUPS)))
    for setup in SETUPS:
        trial.step(f"settings: {setup.name}")
        usual = {"overload_wait_ms": 60_000, "shed_wait_ms": 60_000} | setup.settings
        with (
            Service(trial, folder, lane="true", **usual) as quick,
            Service(trial, folder, lane="false", **usual) as plain,
        ):
            for _ in range(each):
                raw = draw(trial.rng)
                compare(trial, setup.name, raw, exchange(quick, raw), exchange(plain, raw))


def draw(rng: random.Random) -> bytes:
    """Draw a request that the short cut may take, or may only seem to be one."""
    method = rng.choice(("GET",) * 12 + ("HEAD", "OPTIONS", "POST"))
    path = rng.choice(("/recommend",) * 12 + ("/recommend/", "//recommend", "/Recommend", "http://x/recommend"))
    version = rng.choice(("1.1",) * 8 + ("1.0",))
    headers = "".join(f"{rng.choice(_HEADERS)}\r\n" for _ in range(rng.choice((0, 1, 1, 2, 3))))
    headers = f"Host: 127.0.0.1\r\n{headers}".replace("\r\n\r\n", "\r\n").replace("\r\n\r\n", "\r\n")
    target = f"{path}?user_id={rng.choice(_USERS)}{rng.choice(_REST)}"
    return f"{method} {target} HTTP/{version}\r\n{headers}\r\n".encode("latin-1")


def exchange(service: Service, raw: bytes) -> tuple[Answer | str, ...]:
    """Send the request twice on one connection and return the answers, and how the connection went on."""
    bodiless = raw.startswith(b"HEAD")
    found: list[Answer | str] = []
    with Wire(service.port, timeout=3.0) as wire:
        for _ in range(2):
            wire.send(raw)
            try:
                answer = wire.final(bodiless=bodiless)
            except TimeoutError:
                return (*found, "no answer")
            except BrokenAnswerError as error:
                return (*found, f"no HTTP: {error}")
            if answer is None:
                return (*found, "closed")
            found.append(answer)
    return tuple(found)


def compare(
    trial: Trial, setup: str, raw: bytes, quick: tuple[Answer | str, ...], plain: tuple[Answer | str, ...]
) -> None:
    """Record each way in which the two differ."""
    trial.did("pairs of requests")
    shown = f"{setup}: {raw[:250]!r}"
    for each in (*quick, *plain):
        if not isinstance(each, str):
            trial.check(each.status != 500, "an answer with 500", shown)
        else:
            trial.check(each != "no answer", "a request is never answered", shown)
    kinds = [[each if isinstance(each, str) else each.status for each in side] for side in (quick, plain)]
    if not trial.check(kinds[0] == kinds[1], "another status or end with the short cut", f"{kinds}: {shown}"):
        return
    for fast, slow in zip(quick, plain, strict=True):
        if isinstance(fast, str) or isinstance(slow, str):
            continue
        bodies = timeless(fast.body), timeless(slow.body)
        trial.check(
            bodies[0] == bodies[1],
            "another body with the short cut",
            f"{bodies[0][:150]!r} {bodies[1][:150]!r}: {shown}",
        )
        heads = masked(fast), masked(slow)
        extra = f"only with {heads[0] - heads[1] or '{}'}, only without {heads[1] - heads[0] or '{}'}"
        trial.check(heads[0] == heads[1], "other headers with the short cut", f"{extra}: {shown}")


def masked(answer: Answer) -> frozenset[tuple[str, str]]:
    """Return the headers without the values that always differ; an id that was sent must come back as it was."""
    return frozenset((name, "" if name in _MASKED and value != "mine" else value) for name, value in answer.headers)
