"""More work than time: budgets shrink, then some are refused, health answers all the while, and it recovers."""

import asyncio
import json
from time import perf_counter

import pytest

from tests.service.conftest import write_model
from tests.service.running import poll, server

BUDGET = 8000
FLOORS = {"interactive": 50, "batch": 20}


SETTINGS = {
    "inline_ms": 100,
    "overload_wait_ms": 2,
    "shed_wait_ms": 60,
    "recovery_seconds": 0.3,
    "interactive_floor": FLOORS["interactive"],
    "batch_floor": FLOORS["batch"],
}


@pytest.fixture(scope="module")
def heavy(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("busy") / "m", n_items=50_000, max_budget=BUDGET)


@pytest.fixture(scope="module")
def busy(heavy):
    with server(heavy.path, heavy.path.parent / "log", **SETTINGS) as running:
        yield running


class Caller:
    """One connection that is asked to send at a given time, whether or not the last answer has come."""

    def __init__(self, port):
        self._port = port

    async def __aenter__(self):
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_):
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, path, **headers):
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        status = int(head.split(None, 2)[1])
        names = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:] if line)
        body = await self._reader.readexactly(int(names["content-length"]))
        if names["content-type"] == "application/json":
            body = json.loads(body)
        return status, names, body


async def burst(port, count, rounds, pause, headers=None):
    """Send `count` requests at once, `rounds` times, at fixed times: an open loop, which does not wait for the slow."""
    answers, health = [], []
    callers = [Caller(port) for _ in range(count)]
    watcher = Caller(port)
    async with watcher:
        for caller in callers:
            await caller.__aenter__()
        start = perf_counter()
        tasks = []
        for number in range(rounds):
            await asyncio.sleep(max(0.0, start + number * pause - perf_counter()))
            if tasks:
                answers += await asyncio.gather(*tasks)
            tasks = [
                asyncio.create_task(caller.ask(f"/recommend?user_id=u{8 + n % 150}&budget={BUDGET}", **(headers or {})))
                for n, caller in enumerate(callers)
            ]
            await asyncio.sleep(0)
            health.append(await watcher.ask("/health/live"))
            health.append(await watcher.ask("/metrics"))
        answers += await asyncio.gather(*tasks)
        for caller in callers:
            await caller.__aexit__()
    return answers, health


def recovered(busy):
    return busy.get(f"/recommend?user_id=u9&budget={BUDGET}").json()["degraded"] is None


def test_budgets_shrink_health_answers_and_it_recovers(busy):
    poll(lambda: recovered(busy), "calm at the beginning")
    answers, health = asyncio.run(burst(busy.port, 150, 6, 0.1))
    statuses = {status for status, *_ in answers}
    assert statuses <= {200, 503}
    good = [body for status, _, body in answers if status == 200]
    shrunk = [body for body in good if body["degraded"]]
    assert shrunk
    for body in shrunk:
        assert body["degraded"] == {"from": BUDGET, "reason": "overload"}
        assert FLOORS["interactive"] <= body["budget"] < BUDGET
        assert body["spent"] <= body["budget"]
        assert len(body["items"]) == 10
    for status, headers, body in answers:
        if status == 503:
            assert body["error"]["code"] == "overload"
            assert int(headers["retry-after"]) >= 1
    # Health and metrics are never shed.
    assert {status for status, *_ in health} == {200}
    assert busy.metric('budgetrec_degraded_total{reason="overload"}') >= len(shrunk)
    poll(lambda: recovered(busy), "the full budget again")
    assert busy.metric("budgetrec_queued_products") == 0


def test_without_the_lane_too(heavy, tmp_path):
    with server(heavy.path, tmp_path / "log", lane=False, **SETTINGS) as running:
        answers, health = asyncio.run(burst(running.port, 150, 6, 0.1))
        assert {status for status, *_ in answers} <= {200, 503}
        assert any(body.get("degraded") for _, _, body in answers)
        assert {status for status, *_ in health} == {200}
        poll(lambda: recovered(running), "the full budget again")


def test_batch_callers_shrink_more_and_are_refused_first(busy):
    poll(lambda: recovered(busy), "calm at the beginning")

    async def both():
        return await asyncio.gather(
            burst(busy.port, 100, 4, 0.1, {"X_Priority": "interactive"}),
            burst(busy.port, 100, 4, 0.1, {"X_Priority": "batch"}),
        )

    (interactive, _), (batch, _) = asyncio.run(both())

    def refused(answers):
        return sum(status == 503 for status, *_ in answers)

    def mean_budget(answers):
        """Count a refused request as one that got nothing."""
        return sum(body["budget"] for status, _, body in answers if status == 200) / len(answers)

    assert refused(batch) >= refused(interactive)
    assert mean_budget(batch) < mean_budget(interactive)
    shed = busy.metric('budgetrec_shed_total{reason="overload",priority="batch"}')
    assert shed == refused(batch)


def test_a_deadline_that_passes_in_the_queue_costs_no_work(busy):
    poll(lambda: recovered(busy), "calm at the beginning")
    answers, _ = asyncio.run(burst(busy.port, 150, 2, 0.05, {"X_Request_Deadline_Ms": "3"}))
    assert {status for status, *_ in answers} == {200}
    late = [body for _, _, body in answers if body["fallback"] == "deadline"]
    assert late
    assert all(body["spent"] == body["budget"] == 0 and len(body["items"]) == 10 for body in late)
    assert all(body["spent"] <= body["budget"] for _, _, body in answers)


def test_long_searches_go_to_threads_and_leave_the_loop_to_others(tmp_path):
    model = write_model(tmp_path / "m", n_items=300_000)

    async def scenario(port):
        async with Caller(port) as slow, Caller(port) as quick:
            exact = asyncio.create_task(slow.ask("/recommend?user_id=u9&budget=300000"))
            answered = 0
            while not exact.done():
                status, *_ = await quick.ask("/recommend?user_id=u10&budget=16")
                assert status == 200
                answered += 1
            return (await exact)[2], answered

    with server(model.path, tmp_path / "log", max_budget=10**6) as running:
        # The first searches teach the cost law; any of them shows that others are served meanwhile.
        seen = [asyncio.run(scenario(running.port)) for _ in range(10)]
    assert all(body["complete"] for body, _ in seen)
    assert max(answered for _, answered in seen) >= 3
