"""Several models in one service: which of them answers, and changes of one that leave the others alone."""

import json
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from greedy_core import GreedyIndex, VersionsFolder, write_bundle
from service.experiment import Experiment
from tests.service.conftest import N_DIMS, N_USERS
from tests.service.running import in_process, poll, server

EXPERIMENT = Experiment("trial-1", {"main": 0.7, "new": 0.3})
AS_TEXT = json.dumps({"name": EXPERIMENT.name, "arms": dict(EXPERIMENT.shares)})
USERS = [f"u{number}" for number in range(8, N_USERS - 1)]
DEALT_TO_NEW = [user for user in USERS if EXPERIMENT.arm_of(user) == "new"]
DEALT_TO_MAIN = [user for user in USERS if EXPERIMENT.arm_of(user) == "main"]


def make_folders(path, versions):
    """Return two models folders: main with v1 current, new with v2 current and v1 before it."""
    for name in ("main", "new"):
        shutil.copytree(versions, path / name)
        VersionsFolder(path / name).promote("v1")
    VersionsFolder(path / "new").promote("v2")
    return {name: path / name for name in ("main", "new")}


@pytest.fixture(scope="module")
def shared(tmp_path_factory, versions):
    """A service that no test changes."""
    folders = make_folders(tmp_path_factory.mktemp("shared"), versions)
    with in_process(folders, experiment=AS_TEXT, admin_key="secret") as running:
        poll(lambda: running.get("/health/ready").status_code == 200, "both models")
        yield running


def timeless(body):
    return re.sub(rb'"search_us":\d+', b'"search_us":0', body)


def without_arm(answer):
    answer = dict(answer)
    del answer["arm"], answer["search_us"]
    answer.pop("experiment", None)
    return answer


# ---- who answers


def test_users_are_dealt_out(shared):
    for user in (*DEALT_TO_MAIN[:5], *DEALT_TO_NEW[:5]):
        answer = shared.get(f"/recommend?user_id={user}&budget=64").json()
        arm = EXPERIMENT.arm_of(user)
        assert (answer["arm"], answer["experiment"]) == (arm, "trial-1")
        assert answer["model"] == {"main": "v1", "new": "v2"}[arm]


@pytest.mark.parametrize("name", ["main", "new"])
def test_a_named_model_answers_as_if_it_were_alone(shared, versions, name):
    version = {"main": "v1", "new": "v2"}[name]
    with in_process(versions / version) as alone:
        for question in ("user_id=u9&budget=64", "user_id=u77&top_k=3", "items=i9,i12&budget=200"):
            named = shared.get(f"/recommend?{question}&model={name}").json()
            assert named["arm"] == name
            assert "experiment" not in named
            expected = alone.get(f"/recommend?{question}").json()
            del expected["search_us"]
            assert without_arm(named) == expected
        similar = shared.get(f"/similar?item_id=i9&model={name}").json()
        expected = alone.get("/similar?item_id=i9").json()
        del expected["search_us"]
        assert without_arm(similar) == expected
        assert shared.get(f"/model?model={name}").json()["version"] == version
        assert shared.get(f"/budgets?model={name}").json()["model"] == version


def test_whoever_is_nobody_gets_the_default(shared):
    assert shared.get("/recommend?items=i9").json()["arm"] == "main"
    assert shared.get("/similar?item_id=i9").json()["arm"] == "main"
    answer = shared.post("/recommend", json={"vector": [1.0] * N_DIMS}).json()
    assert answer["arm"] == "main"
    assert "experiment" not in answer
    assert shared.get("/model").json()["version"] == "v1"
    assert shared.get("/budgets").json()["model"] == "v1"


def test_an_unknown_user_has_an_arm_too(shared):
    for user in ("nobody-1", "nobody-2", "nobody-3", "nobody-4"):
        answer = shared.get(f"/recommend?user_id={user}").json()
        assert (answer["fallback"], answer["arm"]) == ("unknown_user", EXPERIMENT.arm_of(user))
        assert answer["experiment"] == "trial-1"


def test_posted(shared):
    user = DEALT_TO_NEW[0]
    assert shared.post("/recommend", json={"user_id": user}).json()["arm"] == "new"
    assert shared.post("/recommend", json={"user_id": user, "model": "main"}).json()["arm"] == "main"
    assert shared.post("/recommend", json={"vector": [1.0] * N_DIMS, "model": "new"}).json()["model"] == "v2"


def test_a_batch_is_answered_by_several_models_in_its_order(shared):
    entries = [{"user_id": user, "budget": 64} for user in (*DEALT_TO_NEW[:3], *DEALT_TO_MAIN[:3], "nobody", "u199")]
    entries += [{"user_id": "u9", "model": "new"}, {"vector": [1.0] * N_DIMS}, {"items": ["no-item"]}]
    entries = entries[::2] + entries[1::2]
    results = shared.post("/recommend/batch", json={"requests": entries}).json()["results"]
    for entry, result in zip(entries, results, strict=True):
        if "error" in result:
            assert entry == {"items": ["no-item"]}
            continue
        alone = shared.post("/recommend", json=entry).json()
        assert result | {"search_us": 0} == alone | {"search_us": 0}


def test_the_short_cut_answers_the_same(shared, tmp_path):
    folders = json.dumps({name: str(path) for name, path in shared.settings.folders.items()})
    with server(folders, tmp_path / "log", experiment=AS_TEXT) as short:
        for question in (
            f"user_id={DEALT_TO_NEW[0]}&budget=64&top_k=5",
            f"user_id={DEALT_TO_MAIN[0]}&budget=64&top_k=5",
            f"user_id={DEALT_TO_NEW[1]}&model=main",
            "user_id=u9&model=new&budget=100000",
            "items=i9&model=new",
            f"user_id={DEALT_TO_NEW[2]}&filter=in_stock&budget=50",
        ):
            direct, outer = short.get(f"/recommend?{question}"), shared.get(f"/recommend?{question}")
            assert direct.status_code == 200
            assert timeless(direct.content) == timeless(outer.content)
        missing = short.get("/recommend?user_id=u9&model=nwe")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_model")


# ---- what is wrong


@pytest.mark.parametrize("call", ["/recommend?user_id=u9&", "/similar?item_id=i9&", "/budgets?", "/model?"])
def test_a_name_that_no_model_has(shared, call):
    response = shared.get(f"{call}model=nwe")
    assert response.status_code == 404
    assert response.json()["error"] == {
        "code": "unknown_model",
        "message": "model: there is no model 'nwe' here.",
        "hint": "model takes one of: main, new; without it, main answers, or an experiment decides.",
    }
    for wrong in ("model=", "model=main&model=new", "modle=new"):
        assert shared.get(f"{call}{wrong}").status_code == 422


def test_a_wrong_name_in_a_body(shared):
    response = shared.post("/recommend", json={"user_id": "u9", "model": "n" * 500})
    assert response.status_code == 404
    assert len(response.json()["error"]["message"]) < 150
    for wrong in (5, "", ["new"]):
        assert shared.post("/recommend", json={"user_id": "u9", "model": wrong}).status_code == 422
    response = shared.post("/recommend/batch", json={"requests": [{"user_id": "u9"}, {"user_id": "u9", "model": "x"}]})
    assert response.status_code == 404
    assert response.json()["error"]["message"] == "requests[1].model: there is no model 'x' here."


def test_a_single_model_without_a_name_is_the_default(app):
    response = app.get("/recommend?user_id=u9&model=main")
    assert response.status_code == 404
    assert response.json()["error"]["hint"].startswith("model takes one of: default;")
    assert app.post("/recommend/batch", json={"requests": [{"user_id": "u9", "model": "x"}]}).status_code == 404
    listed = app.get("/models").json()
    assert listed["experiment"] is None
    assert listed["models"] == [
        {"name": "default", "version": "v1", "is_default": True, "share": None, "waits_for": None}
    ]
    answers = [app.get(f"/recommend?user_id=u9{more}") for more in ("", "&model=default")]
    assert timeless(answers[0].content) == timeless(answers[1].content)
    assert not {"arm", "experiment"} & set(answers[0].json())
    assert "budgetrec_arm" not in app.get("/metrics").text


def test_a_single_model_with_a_name_says_no_more_than_one_without(model, app):
    with in_process({"main": model.path}) as named:
        for question in ("/recommend?user_id=u9&budget=64", "/similar?item_id=i9"):
            assert timeless(named.get(question).content) == timeless(app.get(question).content)
        assert timeless(named.get("/recommend?user_id=u9&model=main").content) == timeless(
            app.get("/recommend?user_id=u9").content
        )
        assert named.get("/recommend?user_id=u9&model=new").status_code == 404
        batch = named.post("/recommend/batch", json={"requests": [{"user_id": "u9", "model": "main"}]})
        assert batch.json()["results"][0]["model"] == "v1"


def test_vectors_are_as_long_as_those_of_their_model(model, tmp_path):
    vectors = np.random.default_rng(5).standard_normal((50, 3)).astype(np.float32)
    write_bundle(tmp_path / "flat", index=GreedyIndex.build(vectors), item_ids=[str(n) for n in range(50)])
    with in_process({"main": model.path, "flat": tmp_path / "flat"}) as app:
        poll(lambda: app.get("/health/ready").status_code == 200, "both models")
        entries = [{"vector": [1.0] * 3, "model": "flat"}, {"vector": [1.0] * N_DIMS}]
        assert [app.post("/recommend", json=entry).json()["arm"] for entry in entries] == ["flat", "main"]
        assert len(app.post("/recommend/batch", json={"requests": entries}).json()["results"]) == 2
        wrong = app.post("/recommend/batch", json={"requests": [*entries, {"vector": [1.0] * 3}]}).json()["error"]
        assert wrong["message"] == "requests[2].vector has 3 numbers."
        assert app.get("/budgets?model=flat").json()["error"]["code"] == "no_calibration"
        limits = app.get("/openapi.json").json()["components"]["schemas"]["RecommendRequest"]["properties"]["vector"]
        assert (limits["anyOf"][0]["minItems"], limits["anyOf"][0]["maxItems"]) == (3, N_DIMS)


def test_a_key_pays_for_a_batch_of_several_models_at_once(shared):
    with in_process(shared.settings.folders, api_keys="shop:long-enough:1") as app:
        poll(lambda: app.get("/health/ready").status_code == 200, "both models")
        asks = {"requests": [{"user_id": "u9", "budget": 40, "model": name} for name in ("main", "new")]}
        headers = {"X-API-Key": "long-enough"}
        paid = app.post("/recommend/batch", json=asks, headers=headers).json()
        assert [result["spent"] for result in paid["results"]] == [40, 40]
        assert app.post("/recommend/batch", json=asks, headers=headers).status_code == 429


# ---- readiness


def test_ready_when_all_are_and_it_says_which_is_waited_for(tmp_path, versions):
    folders = make_folders(tmp_path, versions)
    (tmp_path / "new" / "current").unlink()
    with in_process(folders, poll_seconds=0.02, experiment=AS_TEXT) as app:
        poll(lambda: "no version is current" in app.get("/health/ready").text, "a reason")
        ready = app.get("/health/ready")
        assert ready.status_code == 503
        assert "the model new is not served: no version is current" in ready.json()["error"]["message"]
        # Whoever belongs to the other arm is served; nobody changes arms because of it.
        assert app.get(f"/recommend?user_id={DEALT_TO_MAIN[0]}").json()["arm"] == "main"
        refused = app.get(f"/recommend?user_id={DEALT_TO_NEW[0]}")
        assert refused.status_code == 503
        assert refused.json()["error"]["message"] == "The service is not ready: no model is loaded yet as new."
        listed = {each["name"]: each for each in app.get("/models").json()["models"]}
        assert listed["main"]["waits_for"] is None
        assert (listed["new"]["version"], listed["new"]["share"]) == (None, pytest.approx(0.3))
        assert "no version is current" in listed["new"]["waits_for"]
        poll(lambda: app.metric('budgetrec_arm_ready{arm="main"}') == 1, "the gauge")
        assert app.metric('budgetrec_arm_ready{arm="new"}') == 0
        VersionsFolder(tmp_path / "new").promote("v2")
        poll(lambda: app.get("/health/ready").status_code == 200, "the other model")
        assert app.get(f"/recommend?user_id={DEALT_TO_NEW[0]}").json()["arm"] == "new"


# ---- changes


@pytest.fixture
def two(tmp_path, versions):
    folders = make_folders(tmp_path, versions)
    with in_process(folders, poll_seconds=0.02, experiment=AS_TEXT) as running:
        poll(lambda: running.get("/health/ready").status_code == 200, "both models")
        yield running


def served(app):
    return {each["name"]: each["version"] for each in app.get("/models").json()["models"]}


def test_one_is_changed_and_the_other_is_not(two):
    answer = two.post("/admin/reload", json={"model": "new", "version": "v1"}).json()
    assert (answer["outcome"], answer["model"], answer["previous"], answer["version"]) == ("swapped", "new", "v2", "v1")
    assert served(two) == {"main": "v1", "new": "v1"}
    VersionsFolder(two.settings.folders["main"]).promote("v2")
    poll(lambda: served(two) == {"main": "v2", "new": "v1"}, "the pointer of main to be followed")
    assert two.post("/admin/rollback", json={"model": "main"}).json()["version"] == "v1"
    assert served(two) == {"main": "v1", "new": "v1"}
    assert VersionsFolder(two.settings.folders["new"]).current_version() == "v1"
    assert two.metric('budgetrec_arm_swaps_total{arm="main",outcome="rolled_back"}') == 1
    assert two.metric('budgetrec_arm_swaps_total{arm="new",outcome="rolled_back"}') == 0
    assert two.metric('budgetrec_arm_info{arm="main",version="v1"}') == 1


def test_each_has_its_own_gate(two):
    refused = two.post("/admin/reload", json={"model": "new", "version": "poor"})
    assert refused.status_code == 409
    assert "recall@10" in refused.json()["error"]["message"]
    assert two.metric('budgetrec_arm_swaps_total{arm="new",outcome="refused"}') == 1
    assert two.metric('budgetrec_arm_swaps_total{arm="main",outcome="refused"}') == 0
    assert two.post("/admin/reload", json={"model": "main", "version": "corrupt", "force": True}).status_code == 409
    assert served(two) == {"main": "v1", "new": "v2"}


def test_changes_name_their_model(two):
    for call in ("reload", "rollback"):
        missing = two.post(f"/admin/{call}")
        assert missing.status_code == 422
        assert missing.json()["error"]["hint"] == 'Send {"model": "..."} with one of main, new.'
        assert two.post(f"/admin/{call}", json={"model": "x"}).json()["error"]["code"] == "unknown_model"
    assert two.post("/admin/rollback", json={"model": "main"}).json()["error"]["code"] == "nothing_to_roll_back"
    assert served(two) == {"main": "v1", "new": "v2"}


# ---- numbers


def test_numbers_by_arm(tmp_path, versions):
    folders = make_folders(tmp_path, versions)
    with in_process(folders, experiment=AS_TEXT, monitor_share=1, monitor_cpu=1) as app:
        poll(lambda: app.get("/health/ready").status_code == 200, "both models")
        spent = {"main": 0, "new": 0}
        for user in (*DEALT_TO_NEW[:3], *DEALT_TO_MAIN[:4]):
            answer = app.get(f"/recommend?user_id={user}&budget=50").json()
            spent[answer["arm"]] += answer["spent"]
        spent["new"] += app.get("/recommend?user_id=u9&model=new").json()["spent"]
        spent["main"] += app.get("/recommend?items=i9").json()["spent"]
        app.get("/recommend?user_id=nobody&model=new")

        def answers(arm, why):
            return app.metric(f'budgetrec_arm_answers_total{{arm="{arm}",chosen_by="{why}"}}')

        assert [answers("new", why) for why in ("experiment", "name", "default")] == [3, 2, 0]
        assert [answers("main", why) for why in ("experiment", "name", "default")] == [4, 0, 1]
        for arm, count in (("new", 4), ("main", 5)):
            assert app.metric(f'budgetrec_arm_products_spent_total{{arm="{arm}"}}') == spent[arm]
            assert app.metric(f'budgetrec_arm_request_seconds_count{{arm="{arm}"}}') == count
        assert app.metric('budgetrec_arm_fallbacks_total{arm="new"}') == 1
        assert app.metric("budgetrec_products_spent_total") == sum(spent.values())
        poll(lambda: app.metric("budgetrec_recall_checks_total") == 9, "the recall monitor")
        assert app.metric('budgetrec_arm_recall_expected_total{arm="new"}') == 40
        assert app.metric('budgetrec_arm_recall_expected_total{arm="main"}') == 50
        assert app.metric('budgetrec_arm_recall_hits_total{arm="main"}') <= 50
        for name, version in (("main", "v1"), ("new", "v2")):
            assert app.metric(f'budgetrec_arm_info{{arm="{name}",version="{version}"}}') == 1
        assert app.metric('budgetrec_model_info{version="v1"}') == 1
        poll(lambda: app.metric('budgetrec_arm_cost_law_b_seconds{arm="new"}') > 0, "the cost law")


def test_openapi_says_the_names(shared):
    document = shared.get("/openapi.json").json()
    for path in ("/recommend", "/similar", "/budgets", "/model"):
        found = [each for each in document["paths"][path]["get"]["parameters"] if each["name"] == "model"]
        assert found[0]["schema"]["examples"] == ["main"]
        assert "main, new" in found[0]["description"]


def test_the_store_of_dealt_users_is_bounded(shared, monkeypatch):
    monkeypatch.setattr("service.answering.arms.KNOWN_USERS", 10)
    for user in DEALT_TO_NEW[:30]:
        assert shared.get(f"/recommend?user_id={user}").json()["arm"] == "new"
    assert len(shared.worker.arms._dealt) <= 10


# ---- for real


def test_several_workers_agree_and_one_model_changes_under_load(tmp_path, versions):
    folders = make_folders(tmp_path, versions)
    as_text = json.dumps({name: str(path) for name, path in folders.items()})
    with server(as_text, tmp_path / "log", workers=2, poll_seconds=0.05, experiment=AS_TEXT) as running:
        asked = USERS[:60]
        stop = threading.Event()
        seen = []

        def ask(part):
            with httpx.Client(base_url=running.address, timeout=20) as client:
                while not stop.is_set():
                    # One at a time, so that whoever waits for the load sees it.
                    seen.extend((user, client.get(f"/recommend?user_id={user}&budget=64")) for user in part)

        with ThreadPoolExecutor(4) as threads:
            loads = [threads.submit(ask, asked[start::4]) for start in range(4)]
            poll(lambda: len(seen) > 50, "the load to begin")
            swapped = running.post("/admin/reload", json={"model": "new", "version": "v1"}).json()
            assert swapped["workers"] == {"total": 2, "serving": 2}
            back = running.post("/admin/rollback", json={"model": "new"}).json()
            assert (back["version"], back["workers"]) == ("v2", {"total": 2, "serving": 2})
            enough = len(seen) + 50
            poll(lambda: len(seen) > enough, "the load to go on")
            stop.set()
            for load in loads:
                load.result()
        by_arm = {"main": set(), "new": set()}
        for user, response in seen:
            assert response.status_code == 200
            answer = response.json()
            assert answer["arm"] == EXPERIMENT.arm_of(user)
            by_arm[answer["arm"]].add(answer["model"])
        assert by_arm["main"] == {"v1"}
        assert by_arm["new"] <= {"v1", "v2"}
        assert running.metric('budgetrec_arm_swaps_total{arm="new",outcome="swapped"}') == 1
        assert running.metric('budgetrec_arm_generation{arm="new"}') == 3
        assert running.metric('budgetrec_arm_generation{arm="main"}') == 1
        dealt = sum(
            running.metric(f'budgetrec_arm_answers_total{{arm="{arm}",chosen_by="experiment"}}') for arm in by_arm
        )
        assert dealt == len(seen)
        # Every worker has mapped the files of both models: there is one copy of each in memory.
        for pid in running.workers():
            text = Path(f"/proc/{pid}/maps").read_text()
            assert all(f"{folders[name]}/{version}/" in text for name, version in (("main", "v1"), ("new", "v2")))
