"""End to end: real nginx, three real replicas, a real Prometheus, and things that go wrong under load."""

from __future__ import annotations

import asyncio
import signal

import httpx
import pytest

from greedy_core import VersionsFolder
from loadtests.http import open_loop
from loadtests.http.models import FIRST, SECOND
from loadtests.http.processes import answers, poll

pytestmark = [pytest.mark.needs("budgetrec", "nginx", "prometheus"), pytest.mark.usefixtures("healed")]

QUESTIONS = [{"user_id": user, "budget": budget} for user in (1, 42, 999, "nobody") for budget in (1, 64, 1000, 50_000)]


@pytest.fixture
def healed(fleet):
    """Every test finds all replicas up, ready and on the same model."""
    yield
    for replica in list(fleet.replicas):
        if not replica.process.alive:
            fleet.restart(replica)


def receipt(url, question):
    answer = httpx.get(f"{url}/recommend", params=question)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    # How long it took is the only thing in which replicas may differ.
    del body["search_us"]
    return body


def assert_same_answers(fleet):
    for question in QUESTIONS:
        first, *others = [receipt(url, question) for url in (*(each.url for each in fleet.replicas), fleet.url)]
        assert first["items"]
        assert all(other == first for other in others)


def serves(replica, version):
    return httpx.get(f"{replica.url}/model").json()["version"] == version


def in_thread(action, *arguments):
    """Make an event of the timetable out of something that blocks."""

    async def event():
        await asyncio.to_thread(action, *arguments)

    return event


def assert_nothing_failed(measured):
    assert measured.failures == []
    assert measured.by_status() == {200: len(measured.statuses)}


def test_every_replica_gives_the_same_answer(fleet):
    assert_same_answers(fleet)


def test_a_replica_killed_under_load_costs_no_request(fleet):
    victim = fleet.replicas[0]
    plan = open_loop.timetable(rate=150, seconds=6)
    events = [(1.5, in_thread(victim.process.kill)), (4.0, in_thread(fleet.restart, victim))]
    assert_nothing_failed(open_loop.run(fleet.url, plan, events=events))
    down = f'min_over_time(up{{job="budgetrec",instance="127.0.0.1:{victim.port}"}}[1m]) == 0'
    poll(lambda: bool(fleet.prometheus.query(down)), seconds=10, what="Prometheus to have seen the replica down")
    # It works again, too: nginx comes back to it once its time out is over.
    before = served(victim)

    def serves_again():
        httpx.get(f"{fleet.url}/recommend", params={"user_id": 1}).raise_for_status()
        return served(victim) > before

    poll(serves_again, seconds=20, what="the replica to get requests again")


def served(replica):
    text = httpx.get(f"{replica.url}/metrics").text
    return sum(
        float(line.split()[-1]) for line in text.splitlines() if line.startswith("budgetrec_products_spent_total")
    )


def test_a_replica_stopped_under_load_costs_no_request(fleet):
    """As in a rolling restart: SIGTERM, a clean end, and a new process in its place."""
    victim = fleet.replicas[1]
    codes = []
    events = [
        (1.0, in_thread(lambda: codes.append(victim.process.stop()))),
        (3.0, in_thread(fleet.restart, victim)),
    ]
    assert_nothing_failed(open_loop.run(fleet.url, open_loop.timetable(rate=150, seconds=5), events=events))
    assert codes == [0]


def test_a_rolling_swap_under_load_costs_no_request(fleet):
    def swap(replica):
        VersionsFolder(replica.models).promote(SECOND)
        poll(lambda: serves(replica, SECOND), seconds=20, what="the new model")

    assert all(serves(replica, FIRST) for replica in fleet.replicas)
    events = [(1.0 + 1.5 * i, in_thread(swap, replica)) for i, replica in enumerate(fleet.replicas)]
    assert_nothing_failed(open_loop.run(fleet.url, open_loop.timetable(rate=150, seconds=6), events=events))
    assert all(serves(replica, SECOND) for replica in fleet.replicas)
    assert_same_answers(fleet)
    everywhere = f'budgetrec:replicas:by_version{{version="{SECOND}"}} == {len(fleet.replicas)}'
    poll(
        lambda: bool(fleet.prometheus.query(everywhere)), seconds=15, what="Prometheus to see the new model everywhere"
    )


def test_a_rollback_under_load_costs_no_request(fleet):
    def roll_back():
        for replica in fleet.replicas:
            VersionsFolder(replica.models).promote(SECOND)
            poll(lambda replica=replica: serves(replica, SECOND), seconds=20, what="the new model")
            answer = httpx.post(f"{replica.url}/admin/rollback", timeout=20)
            assert answer.status_code == 200, answer.text
            assert serves(replica, FIRST)

    for replica in fleet.replicas:
        VersionsFolder(replica.models).promote(FIRST)
        poll(lambda replica=replica: serves(replica, FIRST), seconds=20, what="the first model")
    plan = open_loop.timetable(rate=150, seconds=4)
    assert_nothing_failed(open_loop.run(fleet.url, plan, events=[(0.5, in_thread(roll_back))]))
    assert_same_answers(fleet)


def test_a_replica_that_hangs_is_left_alone(fleet):
    """SIGSTOP: the kernel still accepts, nothing answers. Deadlines pass, and then nginx goes around it."""
    victim = fleet.replicas[2]
    victim.process.signal_group(signal.SIGSTOP)
    try:
        with httpx.Client(base_url=fleet.url, timeout=20) as client:
            poll(
                lambda: all(client.get("/recommend", params={"user_id": 1}).status_code == 200 for _ in range(10)),
                seconds=40,
                what="ten answers in a row",
            )
    finally:
        victim.process.signal_group(signal.SIGCONT)
    poll(lambda: answers(f"{victim.url}/health/ready"), seconds=10, what="the replica to answer again")
