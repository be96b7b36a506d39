"""Large and senseless JSON: refused soon, in little memory, and with nobody else kept waiting."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from loadtests.chaos import models, probe
from loadtests.chaos.serving import Service, forget_peak, memory
from loadtests.chaos.wire import BrokenAnswerError, Wire, request

if TYPE_CHECKING:
    from collections.abc import Callable

    from loadtests.chaos.trial import Trial
    from loadtests.chaos.wire import Answer

# A worker that has not answered a senseless body by then is frozen.
_PATIENCE = 8.0
_MEGABYTE = 1 << 20
# Each body is sent so often; none may keep the others waiting for longer than this, beyond a usual answer.
_TIMES = 3
_HELD_MS = 60.0
_MOST_GROWTH = 64 * _MEGABYTE

RECOMMEND, BATCH = "/recommend", "/recommend/batch"


def repeated(start: bytes, unit: bytes, end: bytes) -> Callable[[int], bytes]:
    """Return a maker of bodies of a given size."""
    return lambda size: start + unit * ((size - len(start) - len(end)) // len(unit)) + end


def nested(opening: bytes, closing: bytes, start: bytes = b"", end: bytes = b"") -> Callable[[int], bytes]:
    """Return a maker of bodies as deep as their size allows."""

    def make(size: int) -> bytes:
        depth = (size - len(start) - len(end)) // (len(opening) + len(closing))
        return start + opening * depth + closing * depth + end

    return make


# Path and how to fill a body of any size. Most of them are no question that could be answered.
SHAPES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "batch of empty objects": (BATCH, repeated(b'{"requests":[{}', b",{}", b"]}")),
    "batch of nulls": (BATCH, repeated(b'{"requests":[null', b",null", b"]}")),
    "batch of numbers": (BATCH, repeated(b'{"requests":[1', b",1", b"]}")),
    "batch of unknown names": (BATCH, repeated(b'{"requests":[{"a":1}', b',{"a":1}', b"]}")),
    "batch of bad budgets": (
        BATCH,
        repeated(b'{"requests":[{"user_id":"1","budget":0}', b',{"user_id":"1","budget":0}', b"]}"),
    ),
    "too large a batch": (BATCH, repeated(b'{"requests":[{"user_id":"1"}', b',{"user_id":"1"}', b"]}")),
    "batch of batches": (BATCH, repeated(b'{"requests":[{"requests":[]}', b',{"requests":[]}', b"]}")),
    "exclude of objects": (RECOMMEND, repeated(b'{"user_id":"1","exclude":[{}', b",{}", b"]}")),
    "exclude of lists": (RECOMMEND, repeated(b'{"user_id":"1","exclude":[[]', b",[]", b"]}")),
    "exclude of fractions": (RECOMMEND, repeated(b'{"user_id":"1","exclude":[0.5', b",0.5", b"]}")),
    "exclude of too many": (RECOMMEND, repeated(b'{"user_id":"1","exclude":[1', b",1", b"]}")),
    "vector of texts": (RECOMMEND, repeated(b'{"vector":["a"', b',"a"', b"]}")),
    "vector of numbers": (RECOMMEND, repeated(b'{"vector":[1', b",1", b"]}")),
    "vector of long numbers": (RECOMMEND, repeated(b'{"vector":[1', b",0." + b"1" * 400, b"]}")),
    "one long text": (RECOMMEND, repeated(b'{"user_id":"', b"u", b'"}')),
    "a long text of escapes": (RECOMMEND, repeated(b'{"user_id":"', b"\\u0001", b'"}')),
    "a long unknown name": (RECOMMEND, repeated(b'{"', b"n", b'":1}')),
    "many unknown names": (RECOMMEND, lambda size: b"{" + b",".join(b'"n%d":1' % n for n in range(size // 13)) + b"}"),
    "one name again and again": (RECOMMEND, repeated(b'{"user_id":"1"', b',"user_id":"1"', b',"budget":0}')),
    "one long number": (RECOMMEND, repeated(b'{"user_id":"1","budget":', b"9", b"}")),
    "deep lists": (RECOMMEND, nested(b"[", b"]")),
    "deep objects": (RECOMMEND, nested(b'{"a":', b"}", end=b"")),
    "deep in a field": (RECOMMEND, nested(b"[", b"]", b'{"user_id":"1","exclude":', b"}")),
    "a list without end": (RECOMMEND, repeated(b"[", b"[", b"")),
    "NaN": (RECOMMEND, repeated(b'{"vector":[NaN', b",NaN", b"]}")),
    "infinities": (RECOMMEND, repeated(b'{"vector":[1e999', b",1e999", b"]}")),
    "spaces": (RECOMMEND, repeated(b"{", b" ", b"}")),
    "bytes": (RECOMMEND, repeated(b"", b"\xff\x00\xfe", b"")),
    "reload of nonsense": ("/admin/reload", repeated(b'{"version":"', b"v", b'"}')),
    "reload of objects": ("/admin/reload", repeated(b'{"version":[{}', b",{}", b"]}")),
}


def run(trial: Trial) -> None:
    folder = models.small(trial, "models", "v1")
    worst: dict[str, tuple[float, str]] = {}
    for megabytes in trial.amounts.body_megabytes:
        size = megabytes * _MEGABYTE - 64
        left = list(SHAPES)
        # One service for all shapes, unless one of them freezes it.
        while left and not trial.out_of_time():
            with Service(trial, folder) as service, probe.Probe(service.port) as watch:
                while left and not trial.out_of_time():
                    name = left.pop(0)
                    trial.step(f"{megabytes} MiB: {name}")
                    if not send(trial, service, watch, name, size, worst):
                        service.deaths_expected = True
                        service.running.kill()
                        break
        trial.check(
            not left, "bodies were left out for want of time", f"{len(left)} of {megabytes} MiB: {', '.join(left)}"
        )
    for what, (_, summary) in worst.items():
        trial.figure(f"{what}: {summary}")


def send(
    trial: Trial, service: Service, watch: probe.Probe, name: str, size: int, worst: dict[str, tuple[float, str]]
) -> bool:
    """Send one body some times while others ask; False if the service does not come back from it."""
    path, make = SHAPES[name]
    raw = request(path, method="POST", body=make(size))
    shown = f"{len(raw) / _MEGABYTE:.0f} MiB, {name}"
    pids = [service.running.pid, *service.workers()]
    for pid in pids:
        forget_peak(pid)
    before = {pid: memory(pid, "VmRSS") for pid in pids}
    held = []
    for _ in range(_TIMES):
        began = time.monotonic()
        answer, problem = exchange(service.port, raw)
        took = time.monotonic() - began
        trial.did("bodies")
        if not trial.check(answer is not None, "a body is not answered", f"{shown}: {problem} after {took:.1f} s"):
            return False
        trial.check(answer is None or answer.status < 500, "a body is answered with 5xx", f"{shown}: {answer}")
        seen = watch.since(began, until=began + took)
        seen.judge(trial, "during a body")
        held.append(seen.worst)
        if held[-1] > 1000:
            break  # once is enough
    growth = sum(max(0, memory(pid, "VmHWM") - before[pid]) for pid in pids)
    summary = f"{shown}: answered in {took:.2f} s, {growth / _MEGABYTE:.0f} MB more, {seen}"
    trial.check(growth <= _MOST_GROWTH, "a body takes more than 64 MB", summary)
    # The machine may be late once; a body that is in the way every time is in the way.
    trial.check(min(held) <= _HELD_MS, f"a body keeps others waiting for more than {_HELD_MS:g} ms", summary)
    for what, number in (("slowest", took), ("largest", growth), ("most in the way", seen.worst)):
        worst[what] = max(worst.get(what, (0.0, "")), (float(number), summary))
    return True


def exchange(port: int, raw: bytes) -> tuple[Answer | None, str]:
    """Send a request and return the answer, or why there is none."""
    try:
        with Wire(port, timeout=_PATIENCE) as wire:
            wire.send(raw)
            return wire.final(), "the connection was closed"
    except (OSError, BrokenAnswerError) as error:
        return None, repr(error)
