"""The demo model: the same every time, and its answers make sense to a person."""

import pytest

from greedy_core import Calibration, read_manifest
from service import demo
from tests.service.running import in_process


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return demo.make(tmp_path_factory.mktemp("demo") / "demo")


def ask(model, user, budget=256, top_k=10):
    position = model.user_position(str(user))
    seen = model.seen_items(position)
    return model.index.search(model.user_vector(position), top_k=top_k, budget=budget, exclude=seen)


def test_sizes_and_names(model):
    assert (model.n_items, model.n_users) == (3200, 1000)
    assert model.version == "demo"
    assert model.has_seen
    assert model.user_position("1") == 0
    assert model.user_position("1000") == 999
    assert model.user_position("1001") is None
    assert model.item_position("jazz-0137") == 136


def test_titles_are_readable_and_all_different(model):
    titles = [model.title(position) for position in range(model.n_items)]
    assert titles[0] == "Quiet Saxophone Ballads"
    assert len(set(titles)) == model.n_items
    assert all(len(title.split()) >= 2 for title in titles)


def test_user_42_loves_jazz_and_cooking(model):
    assert demo.tastes(42) == ("jazz", "cooking")
    topics = [item.split("-")[0] for item in model.item_ids(ask(model, 42).ids)]
    assert set(topics) == {"jazz", "cooking"}


def test_users_get_what_they_love_at_the_default_budget(model):
    hits = 0
    for user in range(1, 1001):
        first, second = demo.tastes(user)
        assert first != second
        hits += sum(item.split("-")[0] in {first, second} for item in model.item_ids(ask(model, user).ids))
    assert hits >= 9_900


def test_a_small_budget_is_not_enough_and_a_large_one_is(model):
    found = dict.fromkeys((8, 256), 0)
    for user in range(1, 101):
        truth = set(ask(model, user, budget=model.n_items).ids.tolist())
        for budget in found:
            found[budget] += len(truth & set(ask(model, user, budget).ids.tolist()))
    assert found[8] < 900
    assert found[256] > 950


def test_what_a_budget_buys_is_known(model):
    calibration = Calibration.from_dict(model.calibration)
    assert calibration.held_out
    assert 64 <= calibration.sample_size <= 100
    assert (calibration.directions, calibration.screening) == (
        model.index.directions,
        str(model.index.screening),
    )
    assert calibration.recall_at(8) < 0.9
    assert calibration.recall_at(256) > 0.95
    assert calibration.budget_for_recall(0.95) <= 256


def test_users_have_seen_items_of_their_topics_only(model):
    for user in (1, 42, 1000):
        seen = model.item_ids(model.seen_items(model.user_position(str(user))))
        assert 5 <= len(seen) <= 30
        assert len(set(seen)) == len(seen)
        assert {item.split("-")[0] for item in seen} <= set(demo.tastes(user))


def test_whoever_met_a_few_items_gets_more_of_their_kind(model):
    assert model.fold_in is not None
    for first, second in (("jazz", "chess"), ("coffee", "birds"), ("opera", "robots")):
        met = model.item_positions([f"{first}-0007", f"{first}-0020", f"{second}-0003"])
        made = model.vector_of_items(met)
        assert made.made == "fold_in"
        found = model.item_ids(model.index.search(made.vector, exclude=met).ids)
        assert {item.split("-")[0] for item in found} <= {first, second}


def test_what_just_happened_moves_a_user(model):
    position = model.user_position("42")
    met = model.item_positions([f"chess-{number:04d}" for number in range(1, 11)])
    moved = model.vector_of_items(met, prior=model.user_vector(position))
    found = model.item_ids(model.index.search(moved.vector, top_k=30, exclude=met).ids)
    assert "chess" in {item.split("-")[0] for item in found}
    assert {"jazz", "cooking"} & {item.split("-")[0] for item in found}


def test_similar_items_are_of_the_same_topic_and_none_is_everywhere(model):
    hits, named = 0, []
    for item in range(0, model.n_items, 16):
        query = model.similar.query([item])
        found = model.similar.index.search(query.vector, exclude=query.exclude, remembered=query.remembered).ids
        topic = model.item_id(item).split("-")[0]
        hits += sum(other.split("-")[0] == topic for other in model.item_ids(found))
        named += found.tolist()
    assert hits >= 0.97 * len(named)
    assert max(named.count(item) for item in set(named)) <= 20


def test_the_same_model_comes_out_every_time(model, tmp_path):
    again = demo.make(tmp_path / "again")
    assert read_manifest(again.path).files == read_manifest(model.path).files
    assert again.metadata == model.metadata


def test_every_scenario_works_on_the_demo(model):
    with in_process(model.path, scenarios=demo.SCENARIOS) as app:
        names = [scenario["name"] for scenario in app.get("/scenarios").json()["scenarios"]]
        assert names == ["home", "bargains", "newsletter", "jazz-corner"]
        for name in names:
            answer = app.get(f"/recommend?user_id=42&scenario={name}&fields=author,category").json()
            assert (answer["scenario"], len(answer["items"])) == (name, 10)
            assert answer["spent"] <= answer["budget"]
            assert answer.get("rules", {}).get("pin", {}).get("left_out", []) == []
        home = app.get("/recommend?user_id=42&scenario=home&fields=author").json()
        authors = [item["fields"]["author"] for item in home["items"]]
        assert max(authors.count(author) for author in authors) <= 2
        assert app.get("/recommend?user_id=stranger&scenario=newsletter").status_code == 404
        stranger = app.get("/recommend?user_id=stranger&scenario=jazz-corner").json()
        assert {item["item_id"].split("-")[0] for item in stranger["items"]} == {"jazz"}
