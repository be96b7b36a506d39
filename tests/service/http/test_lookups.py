"""What people look up before they ask: items, users, attributes, versions; and who may."""

import asyncio
import threading

import pytest

from service.http.lookups import MOST_WAITING
from tests.service.conftest import N_ITEMS, N_USERS, STRANGE_IDS, quality, write_model
from tests.service.running import in_process, poll

CALLS = ("/items", "/users", "/attributes", "/versions")


def test_items_by_words_of_their_titles(app):
    found = app.get("/items", params={"title": "TITLE 1999"}).json()
    assert found == {"model": "v1", "items": [{"item_id": "i1999", "title": "Title of 1999"}], "complete": True}
    # Every id that has no title is found by itself only.
    assert app.get("/items?title=i9").json()["items"] == [{"item_id": "i9", "title": None}]
    strange = app.get("/items", params={"title": "comma,inside"}).json()["items"]
    assert strange == [{"item_id": "comma,inside", "title": None}]
    assert app.get("/items?title=nothing+like+it").json()["items"] == []
    many = app.get("/items?title=title&limit=7").json()
    assert (len(many["items"]), many["complete"]) == (7, False)


def test_popular_items_without_words(app):
    popular = [item["item_id"] for item in app.get("/items?limit=5").json()["items"]]
    asked = app.get("/recommend?user_id=nobody&top_k=5").json()
    assert popular == [item["item_id"] for item in asked["items"]]


def test_what_the_default_filter_hides_is_not_found(model):
    with in_process(model.path, default_filter='category = "c4"') as running:
        # i1999 is of category c4, i1997 of c2.
        assert running.get("/items?title=title+1999").json()["items"] == [
            {"item_id": "i1999", "title": "Title of 1999"}
        ]
        assert running.get("/items?title=title+1997").json()["items"] == []
        assert running.get("/items?title=i1997").json()["items"] == []
        popular = {item["item_id"] for item in running.get("/items?limit=100").json()["items"]}
        shown = running.get("/recommend?user_id=nobody&top_k=100").json()["items"]
        assert popular == {item["item_id"] for item in shown}


def test_some_users_and_never_everybody(app):
    few, most = app.get("/users?limit=3").json(), app.get("/users?limit=100").json()
    assert few["n_users"] == N_USERS
    assert few["users"] == most["users"][:3]
    assert len(most["users"]) == 100
    assert "u10" in most["users"]
    assert app.get("/users?limit=101").status_code == 422
    # The last user has no vector: there would be nothing to try.
    assert f"u{N_USERS - 1}" not in most["users"]


def test_attributes_with_some_values(app):
    listed = {each["name"]: each for each in app.get("/attributes").json()["attributes"]}
    assert listed["category"] == {
        "name": "category", "type": "text", "values": 5, "missing": 0.091, "some": ["c0", "c1", "c2", "c3", "c4"],
    }  # fmt: skip
    assert listed["price"]["some"] == [0.5, 39.5]
    assert listed["in_stock"]["some"] == [False, True]
    assert listed["published"]["some"] == ["2026-01-01T00:00:00Z", "2026-10-27T00:00:00Z"]
    one = app.get("/attributes?name=tags&starts=t4").json()["attributes"]
    assert [(each["name"], each["some"]) for each in one] == [("tags", ["t4"])]
    unknown = app.get("/attributes?name=colour")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_attribute")
    assert "category, price" in unknown.json()["error"]["message"]


def test_versions_of_a_folder(folder):
    write_model(folder.path / "v3", seed=5, quality=quality(0.25), similar=False)
    folder.promote("v2")
    with in_process(folder.path) as running:
        answer = running.get("/versions").json()
    rows = {row["version"]: row for row in answer["versions"]}
    assert (answer["served"], answer["n_versions"]) == ("v2", 5)
    assert list(rows) == sorted(rows, key=lambda name: rows[name]["built_at"], reverse=True)
    assert [name for name, row in rows.items() if row["is_current"]] == ["v2"]
    assert [name for name, row in rows.items() if row["is_previous"]] == ["v1"]
    assert (rows["v2"]["recall_at_10"], rows["poor"]["recall_at_10"]) == (0.9, pytest.approx(0.72))
    assert (rows["v3"]["ndcg_at_10"], rows["v1"]["ndcg_at_10"]) == (0.25, None)
    assert all(row["n_items"] == N_ITEMS for row in rows.values())


def test_a_damaged_version_is_named_and_no_more(folder):
    (folder.path / "poor" / "model.json").write_text("{")
    with in_process(folder.path) as running:
        rows = {row["version"]: row for row in running.get("/versions").json()["versions"]}
    assert (rows["poor"]["built_at"], rows["poor"]["n_items"]) == (None, None)
    assert rows["v2"]["n_items"] == N_ITEMS


def test_the_version_of_a_single_bundle(app, model):
    answer = app.get("/versions").json()
    assert [(row["version"], row["is_current"]) for row in answer["versions"]] == [("v1", True)]
    assert str(model.path.parent) not in app.get("/versions").text


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("/items?title=", "title is empty"),
        (f"/items?title={'x' * 201}", "title has 201 characters"),
        ("/items?limit=0", "limit is '0'"),
        ("/items?name=x", "name is not a parameter of this call"),
        ("/items?title=%ff", "title is not valid UTF-8"),
        ("/users?limit=x", "limit is 'x'"),
        ("/attributes?starts=", "starts is empty"),
        ("/versions?limit=3", "limit is not a parameter of this call"),
    ],
)
def test_wrong_questions_get_a_sentence(app, url, named):
    answer = app.get(url)
    assert answer.status_code == 422
    assert named in answer.json()["error"]["message"]


@pytest.mark.parametrize("call", CALLS)
def test_keys_count_and_a_browse_key_is_not_enough(model, call):
    keys = {"api_keys": "shop:shop-secret-key", "browse_keys": "page:page-public-key:1000:https://shop.example"}
    with in_process(model.path, **keys) as running:
        statuses = [
            running.get(call, headers=headers).status_code
            for headers in ({}, {"X-API-Key": "page-public-key"}, {"X-API-Key": "shop-secret-key"})
        ]
    assert statuses == [401, 403, 200]


@pytest.mark.parametrize("call", ["/", *CALLS])
def test_all_of_it_can_be_switched_off(model, call):
    with in_process(model.path, page=False) as running:
        assert running.get(call).status_code == 404
        assert call not in running.get("/openapi.json").json()["paths"]
        assert running.get("/docs").status_code == 200


def test_few_wait_and_the_others_are_told_to_come_back(model):
    with in_process(model.path) as running:
        busy, lookups = threading.Event(), running.worker.lookups

        async def occupy():
            return [asyncio.ensure_future(lookups.run(busy.wait)) for _ in range(MOST_WAITING)]

        async def done(waiting):
            return await asyncio.gather(*waiting)

        waiting = running.do(occupy())
        try:
            refused = running.get("/items?title=title")
            answered = running.get("/recommend?user_id=u9")
        finally:
            busy.set()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overload")
        assert int(refused.headers["retry-after"]) >= 1
        # Nobody else waits for them.
        assert answered.status_code == 200
        assert running.do(done(waiting)) == [True] * MOST_WAITING
        poll(lambda: running.get("/items?title=title").status_code == 200, "room for another look-up")


def test_strange_ids_can_be_found_and_used(app):
    for item_id in STRANGE_IDS[:-2]:
        found = app.get("/items", params={"title": item_id[:200], "limit": 1})
        if len(item_id) <= 200:
            assert found.json()["items"][0]["item_id"] == item_id
