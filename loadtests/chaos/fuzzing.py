"""HTTP as nobody should send it: every answer is matched to its question, and no connection hangs."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING

from loadtests.chaos import models
from loadtests.chaos.messages import NOT_HTTP, TARGETS, Message, mutated, plain, well_formed
from loadtests.chaos.oracle import Oracle
from loadtests.chaos.serving import Service
from loadtests.chaos.wire import BrokenAnswerError, Wire, request

if TYPE_CHECKING:
    from loadtests.chaos.trial import Trial
    from loadtests.chaos.wire import Answer

# So that the kernel hands the two pieces to the service one after the other.
_APART = 0.002
# In a log that says something about every single malformed request, a stranger can fill the disk.
_LINES_PER_MALFORMED = 0.5
# A quiet service that has not answered by then will not.
_PATIENCE = 3.0
# What may still become a request is waited for, but not for long.
_RECEIVE = 1.0


def run(trial: Trial) -> None:
    folder = models.small(trial, "models", "v1")
    with Service(trial, folder, receive_seconds=_RECEIVE) as service:
        oracle = Oracle()
        oracle.learn(service.port, TARGETS)
        fuzzer = Fuzzer(trial, service, oracle)
        trial.step("requests cut in two at every byte")
        fuzzer.split_everywhere()
        trial.step("what is no HTTP, alone and behind good requests")
        fuzzer.not_http()
        trial.step("pipelines of well-formed requests")
        fuzzer.pipelines(trial.amounts.requests * 3 // 4)
        trial.step("mutated bytes")
        fuzzer.mutations(trial.amounts.requests // 4)
        fuzzer.still_serves("all of it")


class Fuzzer:
    """Sends, and compares what comes back with what must."""

    def __init__(self, trial: Trial, service: Service, oracle: Oracle) -> None:
        self.trial = trial
        self.service = service
        self.oracle = oracle
        self.rng = trial.rng
        self._number = 0

    # ---- what is sent

    def split_everywhere(self) -> None:
        """Send each kind of request in two pieces, cut at every byte, and once byte by byte."""
        seen: dict[str, Message] = {}
        for number in range(400):
            message = well_formed(self.rng, number)
            if len(message.raw) < 500 or message.kind == "large head":
                seen.setdefault(message.kind, message)
        for message in seen.values():
            step = max(1, len(message.raw) // 40)
            for place in range(1, len(message.raw), step):
                self.converse([message], pieces=[message.raw[:place], message.raw[place:]], how="cut in two")
            if len(message.raw) < 500:
                self.converse([message], pieces=[bytes([byte]) for byte in message.raw], how="byte by byte", pause=0.0)

    def not_http(self) -> None:
        """Send what must be refused, alone, in two pieces, and behind good requests in the same packet."""
        before = self.service.log.stat().st_size
        lines_before = len(self.service.log.read_bytes().splitlines())
        sent = 0
        for kind, raw in NOT_HTTP.items():
            half = len(raw) // 2
            for pieces in ([raw], [raw[:half], raw[half:]]):
                self.refused(kind, pieces)
            good = [plain(self.rng, f"before-{self._next()}-{n}") for n in range(3)]
            self.converse(good, behind=raw, how=f"before garbage ({kind})" if len(kind) < 12 else "before garbage")
            sent += 3
        for _ in range(100):
            self.refused("version 9", [NOT_HTTP["version 9"]])
        sent += 100
        self.still_serves("what is no HTTP")
        lines = len(self.service.log.read_bytes().splitlines()) - lines_before
        size = self.service.log.stat().st_size - before
        self.trial.figure(f"{lines} log lines ({size:,} bytes) for {sent} malformed requests")
        self.trial.check(
            lines <= sent * _LINES_PER_MALFORMED, "a log line for every malformed request", f"{lines} for {sent}"
        )

    def pipelines(self, count: int) -> None:
        """Send well-formed requests of all kinds, one or many in a packet, in order, over many connections."""
        sent = 0
        while sent < count and not self.trial.out_of_time():
            batch = [well_formed(self.rng, self._next()) for _ in range(self.rng.choice((1, 1, 2, 3, 8, 20)))]
            raw = b"".join(message.raw for message in batch)
            if self.rng.random() < 0.2 and len(raw) < 20_000:
                places = sorted(self.rng.randrange(len(raw)) for _ in range(self.rng.randint(1, 5)))
                edges = [0, *places, len(raw)]
                pieces = [raw[start:end] for start, end in itertools.pairwise(edges)]
                self.converse(batch, pieces=pieces, how="in a pipeline, in pieces", pause=0.0005)
            else:
                self.converse(batch, how="in a pipeline" if len(batch) > 1 else "alone")
            sent += len(batch)

    def mutations(self, count: int) -> None:
        """Send altered requests: whatever they have become, no 500, no hanging, and the next is served."""
        for number in range(count):
            if self.trial.out_of_time(0.95):
                break
            raw = mutated(
                self.rng, b"".join(well_formed(self.rng, self._next()).raw for _ in range(self.rng.randint(1, 3)))
            )
            self.refused("mutated", [raw], must_refuse=False)
            if number % 50 == 0:
                self.still_serves("mutated bytes")

    # ---- how it is sent and read

    def converse(
        self,
        messages: list[Message],
        *,
        how: str,
        pieces: list[bytes] | None = None,
        behind: bytes = b"",
        pause: float = _APART,
    ) -> None:
        """Send messages on one connection; each must be answered once and in order, or the connection ends openly."""
        self.trial.did("requests", len(messages))
        with Wire(self.service.port, timeout=_PATIENCE) as wire:
            for piece in pieces or [b"".join(message.raw for message in messages) + behind]:
                wire.send(piece)
                if pieces and pause:
                    time.sleep(pause)
            before = ""
            for message in messages:
                answer = self._one(wire, message, how + before)
                if answer is None:
                    return
                if answer.is_last:
                    # What came behind it in the pipeline is for another connection, and the caller knows.
                    self.trial.check(message.may_close, "a connection is ended without need", f"{message.kind}, {how}")
                    self._end(wire, f"{message.kind}, {how}")
                    return
                before = f", behind {message.kind}"
            if behind:
                self._refusal_or_end(wire, how)
            else:
                self._nothing_more(wire, f"{how}, behind {messages[-1].kind}")

    def refused(self, kind: str, pieces: list[bytes], *, must_refuse: bool = True) -> None:
        """Send something that deserves a 4xx or the end of the connection, and then nothing more."""
        self.trial.did("malformed")
        with Wire(self.service.port, timeout=_PATIENCE) as wire:
            for piece in pieces:
                wire.send(piece)
                if len(pieces) > 1:
                    time.sleep(_APART)
            if not must_refuse:
                wire.finish()
            try:
                answer = wire.final(bodiless=False)
                if must_refuse:
                    self.trial.check(
                        answer is None or 400 <= answer.status < 500,
                        "malformed HTTP is answered as if it were not",
                        f"{kind}: {answer}",
                    )
                while answer is not None:
                    self.trial.check(answer.status != 500, "an answer with 500", f"{kind}: {pieces}")
                    answer = wire.final(bodiless=False)
            except TimeoutError:
                self.trial.check(False, "malformed HTTP leaves the connection open", f"{kind}: {pieces[0][:200]!r}")
            except BrokenAnswerError as error:
                # A mutation may have turned a method into HEAD, whose answer has no body.
                self.trial.check(not must_refuse, "an answer that is no HTTP", f"{kind}: {error}")

    def still_serves(self, after: str) -> None:
        """Ask something ordinary on a fresh connection."""
        message = plain(self.rng, f"after-{self._next()}")
        with Wire(self.service.port, timeout=_PATIENCE) as wire:
            wire.send(message.raw)
            self._one(wire, message, f"after {after}")

    # ---- what must hold

    def _one(self, wire: Wire, message: Message, how: str) -> Answer | None:
        """Read the answer to one message; None, with the fault recorded, if there is no point in reading on."""
        check = self.trial.check
        place = f"{message.kind}, {how}"
        try:
            answer = wire.final(bodiless=message.bodiless)
        except TimeoutError:
            check(False, "a request is never answered", place)
            return None
        except BrokenAnswerError as error:
            check(False, "an answer that is no HTTP", f"{place}: {error}")
            return None
        if not check(answer is not None, "a connection ends without the answer", place) or answer is None:
            return None
        check(answer.status != 500, "an answer with 500", place)
        check(answer.status in message.statuses, "a wrong status", f"{place}: {answer.status} {answer.body[:150]!r}")
        if message.request_id is not None:
            found = answer.header("x-request-id")
            check(found == message.request_id, "a wrong X-Request-ID", f"{place}: {found} for {message.request_id}")
        if answer.status == 200 and message.asked is not None and not message.bodiless:
            complaint = self.oracle.complaint(message.asked, answer)
            check(complaint is None, "a wrong answer", f"{place}: {complaint}")
        elif answer.status >= 400 and not message.bodiless:
            check(_is_error(answer), "an error without the usual shape", f"{place}: {answer.body[:150]!r}")
        return answer

    def _end(self, wire: Wire, place: str) -> None:
        """Nothing comes behind an answer that announced the end."""
        try:
            answer = wire.final()
        except (TimeoutError, BrokenAnswerError) as error:
            self.trial.check(False, "a connection does not end as announced", f"{place}: {error!r}")
        else:
            self.trial.check(answer is None, "an answer behind the announced end", f"{place}: {answer}")

    def _refusal_or_end(self, wire: Wire, how: str) -> None:
        """Behind the good requests came garbage: a 4xx or nothing, and then the end."""
        try:
            answer = wire.final()
            if answer is not None:
                self.trial.check(
                    400 <= answer.status < 500, "garbage is answered as if it were none", f"{how}: {answer}"
                )
        except TimeoutError:
            self.trial.check(False, "garbage behind a request leaves the connection open", how)
        except BrokenAnswerError as error:
            self.trial.check(False, "an answer that is no HTTP", f"{how}: {error}")

    def _nothing_more(self, wire: Wire, how: str) -> None:
        """One more request on the same connection: its answer comes next, so nobody was answered twice."""
        sentinel = f"sentinel-{self._next()}"
        wire.send(request("/health/live", headers={"X-Request-ID": sentinel}))
        message = Message("sentinel", b"", sentinel)
        self._one(wire, message, how)

    def _next(self) -> int:
        self._number += 1
        return self._number


def _is_error(answer: Answer) -> bool:
    try:
        return {"code", "message", "hint"} <= set(json.loads(answer.body)["error"])
    except (ValueError, KeyError, TypeError):
        return False
