"""The service on a real Ray answers like one machine, survives the loss of shards, and mixes no versions."""

import json
import os
import signal
from pathlib import Path

import httpx
import pytest

from greedy_core import Bundle, VersionsFolder
from tests.cluster.conftest import N_SHARDS
from tests.service.running import in_process, poll

pytestmark = [
    pytest.mark.needs_packages("ray"),
    # Ray's own warnings: sockets and subprocesses that it leaves to the interpreter, calls that it will rename.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Serve starts processes, which takes a busy machine minutes; nothing is asserted of how long.
LONG = 300

ADMIN = {"Authorization": "Bearer open sesame"}

QUESTIONS = [
    "/recommend?user_id=u3&budget=64",
    "/recommend?user_id=u3&budget=7&top_k=3",
    "/recommend?user_id=u4&budget=2000",
    "/recommend?user_id=u5&target_recall=0.9",
    "/recommend?user_id=u6&budget=128&exclude=i1,i2,i3&exclude_seen=false",
    "/recommend?user_id=u7&budget=100&filter=in_stock and price < 20",
    "/recommend?user_id=u7&budget=100&filter=category in ['c1','c2'] and price < 5&fields=title,price",
    "/recommend?user_id=u8&budget=200&at_most=category:2&diversity=0.3",
    "/recommend?user_id=u8&budget=200&offset=10&top_k=5",
    "/recommend?items=i5,i9,nothing&budget=100",
    "/recommend?user_id=u9&items=i5,i9&budget=100",
    "/recommend?user_id=u119&top_k=4",
    "/recommend?user_id=nobody&top_k=4",
    "/similar?item_id=i5&budget=100",
    "/similar?items=i5,i8&budget=100",
    "/similar?item_id=i5&budget=100&by=inner_product",
]

MISTAKES = [
    "/recommend",
    "/recommend?user_id=u3&budget=-1",
    "/recommend?user_id=u3&top_k=100000",
    "/recommend?user_id=u3&filter=nothing > 3",
    "/recommend?items=nothing",
    "/similar?item_id=nothing",
    "/recommend?user_id=u3&model=other",
    "/nowhere",
]


@pytest.fixture(scope="module")
def one_process(models):
    """The same model on one machine, its shards searched one after the other in this process."""
    with in_process(models / "v1", unknown_user="popular") as running:
        yield running


def comparable(answer):
    """Return what must be the same wherever it was found: all but the time it took and where."""
    answer = json.loads(answer) if isinstance(answer, str | bytes) else dict(answer)
    return {name: value for name, value in answer.items() if name not in ("search_us", "shards")}


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_those_of_one_machine(cluster, one_process, question):
    here, there = one_process.get(question), cluster.get(question)
    assert there.status_code == here.status_code == 200, there.text
    assert comparable(there.text) == comparable(here.text)
    assert list(comparable(there.text)) == list(comparable(here.text))
    shards = there.json().get("shards")
    if there.json()["fallback"] is None:
        assert shards["asked"] == shards["answered"] <= N_SHARDS
    assert "shards" not in here.json()


@pytest.mark.parametrize("question", MISTAKES)
def test_errors_are_those_of_one_machine(cluster, one_process, question):
    here, there = one_process.get(question), cluster.get(question)
    assert there.status_code == here.status_code >= 400
    assert there.json() == here.json()


def test_answers_are_the_library_s_merge_of_the_same_shards(cluster, models):
    bundle = Bundle.open(models / "v1")
    for user in range(10):
        for budget in (1, 16, 64, 512, 1500):
            found = bundle.index.search(
                bundle.user_vector(user), 10, budget, bundle.seen_items(user), None, bundle.user_remembered(user)
            )
            answer = cluster.get(f"/recommend?user_id=u{user}&budget={budget}").json()
            assert [item["item_id"] for item in answer["items"]] == bundle.item_ids(found.ids)
            assert (answer["spent"], answer["complete"]) == (found.spent, found.complete)
            assert answer["spent"] <= budget


def test_a_batch_is_its_questions(cluster, one_process):
    asked = {
        "requests": [
            {"user_id": "u3", "budget": 64},
            {"user_id": "u4", "budget": 3, "top_k": 2},
            {"user_id": "nobody"},
            {"vector": [0.5] * 12, "budget": 200},
            {"user_id": "u5", "budget": 100, "filter": "in_stock"},
        ]
    }
    here, there = one_process.post("/recommend/batch", json=asked), cluster.post("/recommend/batch", json=asked)
    assert there.status_code == here.status_code == 200
    pairs = zip(there.json()["results"], here.json()["results"], strict=True)
    assert all(comparable(far) == comparable(near) for far, near in pairs)


def test_a_deadline_that_has_passed_gets_the_popular_items(cluster):
    answer = cluster.get("/recommend?user_id=u3&deadline_ms=0.001").json()
    assert answer["fallback"] == "deadline"
    assert len(answer["items"]) == 10


def test_what_the_model_is_and_how_it_is(cluster):
    assert cluster.get("/model").json()["n_items"] == 1500
    assert cluster.get("/health/live").json() == {"status": "live"}
    assert "budgetrec_requests_total" in cluster.get("/metrics").text
    assert cluster.get("/budgets").json()["points"]


class TestSwapping:
    def test_a_new_version_is_served_by_all_shards_and_taken_back(self, cluster, models):
        folder = VersionsFolder(models)
        expected = {name: items_of(models / name) for name in ("v1", "v2")}
        seen = {cluster.version()}
        folder.promote("v2")
        try:

            def swapped():
                answer = cluster.get("/recommend?user_id=u3&budget=64").json()
                seen.add(answer["model"])
                assert [item["item_id"] for item in answer["items"]] == expected[answer["model"]]
                return answer["model"] == "v2"

            poll(swapped, "the new version", seconds=LONG, pause=0.0)
            assert seen == {"v1", "v2"}
        finally:
            folder.rollback()
            poll(lambda: cluster.version() == "v1", "the version before", seconds=LONG)

    def test_a_version_with_other_shards_is_refused(self, cluster):
        refused = cluster.post("/admin/reload", headers=ADMIN, json={"version": "fewer"})
        assert refused.status_code == 409
        assert "has 2 shards, and this cluster has 3" in refused.json()["error"]["message"]
        assert cluster.version() == "v1"


def items_of(path):
    bundle = Bundle.open(path)
    found = bundle.index.search(bundle.user_vector(3), 10, 64, bundle.seen_items(3), None, bundle.user_remembered(3))
    return bundle.item_ids(found.ids)


def processes_of(name):
    """Return the processes of the replicas of a deployment: Ray writes who they are into their titles."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            title = (place / "cmdline").read_bytes()
        except OSError:  # gone since
            continue
        if title.startswith(b"ray::ServeReplica:budgetrec:" + name.encode()):
            found.append(int(place.name))
    return found


class TestLosses:
    def test_a_lost_shard_makes_the_answer_smaller_until_it_is_back(self, cluster, models):
        (lost,) = processes_of("shard-1")
        # Long enough that the other shards answer in time on a busy machine, and less than a replica takes to start.
        question = "/recommend?user_id=u3&budget=512&deadline_ms=1500&target_recall=0.99"
        os.kill(lost, signal.SIGKILL)
        answers = []

        def recovered():
            answer = cluster.get(question)
            assert answer.status_code == 200, answer.text
            answers.append(answer.json())
            return answers[-1].get("shards") == {"asked": 3, "answered": 3} and processes_of("shard-1") != [lost]

        poll(recovered, "the shard to be back", seconds=LONG)
        smaller = [answer for answer in answers if answer.get("shards", {}).get("answered") == 2]
        assert smaller
        mine = shard_of(models / "v1", 1)
        for answer in smaller:
            assert answer["complete"] is False
            assert not mine & {item["item_id"] for item in answer["items"]}
        assert all(answer["spent"] <= answer["budget"] for answer in answers)

    def test_a_lost_ingress_is_replaced_and_answers_as_before(self, cluster):
        question = "/recommend?user_id=u3&budget=512"
        before = comparable(cluster.get(question).text)
        (lost,) = processes_of("ingress")
        os.kill(lost, signal.SIGKILL)

        def recovered():
            try:
                answer = cluster.get(question)
            except httpx.HTTPError:
                return False
            found = processes_of("ingress")
            return answer.status_code == 200 and found and found != [lost] and comparable(answer.text) == before

        poll(recovered, "the ingress to be back", seconds=LONG)
        assert cluster.get(question).json()["shards"] == {"asked": 3, "answered": 3}


def shard_of(path, number):
    bundle = Bundle.open(path)
    return set(bundle.item_ids(bundle.index.places.in_shard(number)))
