"""Filters of the settings, and what is kept of filters that were applied."""

import pytest
from pydantic import ValidationError

from greedy_core import Filter, InvalidFilterError
from service.models import filters
from service.models.filters import AppliedFilters, ConfiguredFilters
from service.settings import Settings
from tests.service.conftest import N_ITEMS, shop, write_model
from tests.service.running import in_process, poll

NAMED = {"available": "in_stock and price is not missing", "new": "published > now - 30d"}


def ids_of(response):
    assert response.status_code == 200, response.text
    return [item["item_id"] for item in response.json()["items"]]


class TestNamed:
    @pytest.fixture(scope="class")
    @classmethod
    def app(cls, model):
        with in_process(model.path, filters=NAMED) as running:
            yield running

    def test_a_name_stands_for_its_filter(self, app):
        written = app.get("/recommend", params={"user_id": "u9", "filter": NAMED["available"]}).json()
        named = app.get("/recommend", params={"user_id": "u9", "filter": "@available"}).json()
        assert named | {"search_us": 0} == written | {"search_us": 0}
        both = app.get("/recommend", params={"user_id": "u9", "filter": f"({NAMED['available']}) and price < 9"})
        short = app.get("/recommend", params={"user_id": "u9", "filter": "@available and price < 9"})
        assert ids_of(short) == ids_of(both)

    def test_an_unknown_name(self, app):
        error = app.get("/recommend", params={"user_id": "u9", "filter": "@availabel"}).json()["error"]
        assert "there is no filter @availabel; named filters are: @available, @new" in error["message"]

    def test_without_a_filter_nothing_applies(self, app):
        assert "eligible" not in app.get("/recommend?user_id=u9").json()


class TestDefault:
    @pytest.fixture(scope="class")
    @classmethod
    def app(cls, model):
        with in_process(model.path, filters=NAMED, default_filter="@available") as running:
            yield running

    @pytest.mark.parametrize("own", [None, "price < 9", "price < 9 or price > 30"])
    def test_it_always_applies(self, app, model, own):
        asked = {"user_id": "u9", "budget": 256} | ({} if own is None else {"filter": own})
        text = NAMED["available"] if own is None else f"({NAMED['available']}) and ({own})"
        result = model.index.search(
            model.user_vector(9), 10, 256, model.seen_items(9), None, model.user_remembered(9), model.filter(text)
        )
        for answer in (app.get("/recommend", params=asked), app.post("/recommend", json=asked)):
            assert ids_of(answer) == model.item_ids(result.ids)
            assert answer.json()["eligible"] == result.eligible
        batch = app.post("/recommend/batch", json={"requests": [asked]}).json()["results"][0]
        assert batch["eligible"] == result.eligible
        similar = app.get("/similar", params={"item_id": "i9"} | ({} if own is None else {"filter": own})).json()
        assert all(model.item_position(item["item_id"]) in model.filter(text) for item in similar["items"])

    def test_popular_items_too(self, app, model):
        found = ids_of(app.get("/recommend?user_id=stranger&top_k=100"))
        assert all(model.item_position(item) in model.filter(NAMED["available"]) for item in found)


class TestSwap:
    def test_a_model_that_lacks_an_attribute_is_refused(self, folder):
        write_model(folder.path / "bare", seed=5, attributes=False)
        with in_process(folder.path, filters=NAMED) as app:
            refused = app.post("/admin/reload", json={"version": "bare"})
            assert refused.status_code == 409
            assert "@available of the settings does not fit it" in refused.json()["error"]["message"]
            assert "there is no attribute 'in_stock'" in refused.json()["error"]["message"]
            assert app.get("/model").json()["version"] == "v1"
            assert app.post("/admin/reload", json={"version": "v2"}).status_code == 200

    def test_the_first_model_too(self, folder, capfd):
        write_model(folder.path / "bare", seed=5, attributes=False)
        folder.promote("bare")
        with in_process(folder.path, wait=False, poll_seconds=0.02, default_filter="in_stock") as app:
            poll(lambda: "'bare' could not be loaded" in app.get("/health/ready").text, "the refusal")
            assert app.get("/recommend?user_id=u9").status_code == 503
        out, err = capfd.readouterr()
        assert "default_filter of the settings does not fit it" in out + err

    def test_what_was_asked_of_one_model_is_asked_anew_of_the_next(self, folder):
        with in_process(folder.path) as app:
            asked = {"user_id": "u9", "filter": "price < 20"}
            first = app.get("/recommend", params=asked).json()
            assert app.post("/admin/reload", json={"version": "v2"}).status_code == 200
            second = app.get("/recommend", params=asked).json()
            assert (first["model"], second["model"]) == ("v1", "v2")
            assert app.metric("budgetrec_filter_cache_misses_total") == 2


class TestSettings:
    def test_json_in_the_environment(self, monkeypatch):
        monkeypatch.setenv("BUDGETREC_FILTERS", '{"available": "in_stock"}')
        monkeypatch.setenv("BUDGETREC_DEFAULT_FILTER", "@available")
        settings = Settings()
        assert settings.filters == {"available": "in_stock"}
        assert settings.default_filter == "@available"

    def test_a_table_in_the_file(self, monkeypatch, tmp_path):
        path = tmp_path / "settings.toml"
        path.write_text('default_filter = "@available"\n[filters]\navailable = "in_stock and price < 20"\n')
        monkeypatch.setenv("BUDGETREC_SETTINGS_FILE", str(path))
        assert Settings().filters == {"available": "in_stock and price < 20"}

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"filters": "{"}, "filters must be a JSON object"),
            ({"filters": '["a"]'}, "filters must be a JSON object"),
            ({"filters": '{"a": 3}'}, "filters must be a JSON object"),
            ({"filters": {"a b": "in_stock"}}, "is no name for a filter"),
            ({"filters": {"a": "price <"}}, "the filter a cannot be read: the filter is wrong at character 8"),
            ({"filters": {"a": "in_stock", "b": "@a"}}, "the filter b cannot be read"),
            ({"default_filter": "@b"}, "default_filter cannot be read: the filter is wrong at character 1"),
            ({"filter_cache_mb": 0}, "filter_cache_mb"),
        ],
    )
    def test_what_cannot_be_read_stops_the_start(self, settings, sentence):
        with pytest.raises(ValidationError) as raised:
            Settings(**settings)
        assert sentence in str(raised.value)


class TestKept:
    def store(self, most_bytes=1 << 20, named=None, n_items=N_ITEMS):
        return AppliedFilters(ConfiguredFilters(named or {}), shop(N_ITEMS), n_items, most_bytes)

    def test_what_was_applied_is_found(self):
        kept = self.store()
        assert kept.find("in_stock") is None
        applied = kept.apply("in_stock")
        kept.keep("in_stock", applied)
        assert kept.find("in_stock") is applied.eligible
        assert applied.eligible == Filter("in_stock").eligible(shop(N_ITEMS))

    def test_what_was_not_used_for_longest_makes_room(self):
        texts = [f"price < {n}" for n in range(6)]
        each = self.store().apply(texts[3]).bytes
        kept = self.store(most_bytes=3 * each + each // 2)
        for text in texts[:3]:
            kept.keep(text, kept.apply(text))
        assert kept.find(texts[0]) is not None
        kept.keep(texts[3], kept.apply(texts[3]))
        assert [kept.find(text) is not None for text in texts[:4]] == [True, False, True, True]
        for _ in range(3):
            kept.keep(texts[3], kept.apply(texts[3]))
        assert len(kept) == 3
        assert kept.bytes <= 3 * each + each // 2

    def test_one_is_always_kept(self):
        kept = self.store(most_bytes=1)
        kept.keep("in_stock", kept.apply("in_stock"))
        kept.keep("price < 3", kept.apply("price < 3"))
        assert len(kept) == 1
        assert kept.find("price < 3") is not None

    def test_now_moves_on_by_the_minute(self, monkeypatch):
        day = 86_400_000_000
        start = 1_782_864_000_000_000  # 2026-07-01
        moment = [start]
        monkeypatch.setattr(filters, "clock", lambda: moment[0])
        kept = self.store(named=NAMED)
        for text in ("published > now - 30d", "@new", "in_stock"):
            kept.keep(text, kept.apply(text))
        before = kept.find("@new")
        assert kept.find("published > now - 30d") == before
        moment[0] = start + 100 * day
        assert kept.find("@new") is None
        assert kept.find("in_stock") is not None
        kept.keep("@new", kept.apply("@new"))
        assert kept.find("@new") != before
        assert len(kept) == 3

    def test_what_takes_long_is_not_for_the_event_loop(self):
        assert self.store().is_quick("in_stock")
        assert self.store().is_quick(None)
        assert not self.store().is_quick("in_stock or " * 30 + "in_stock")
        assert not self.store(n_items=1_000_000).is_quick("in_stock")

    def test_a_long_one_is_applied_in_a_thread(self, model, monkeypatch):
        monkeypatch.setattr(filters, "SHORT_TEXT", 5)
        with in_process(model.path) as app:
            short = ids_of(app.get("/recommend", params={"user_id": "u9", "filter": "price < 20"}))
            assert app.metric("budgetrec_filter_cache_misses_total") == 1
            assert short == ids_of(app.get("/recommend", params={"user_id": "u9", "filter": "price < 20"}))
            assert app.metric("budgetrec_filter_cache_hits_total") == 1
            bad = app.get("/recommend", params={"user_id": "u9", "filter": "prise < 20"})
            assert bad.status_code == 422

    def test_bad_ones_are_not_kept(self):
        kept = self.store()
        with pytest.raises(InvalidFilterError):
            kept.apply("colour = 3")
        assert len(kept) == 0
        with pytest.raises(ValueError, match="no filter to apply"):
            kept.apply(None)
