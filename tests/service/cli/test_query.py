"""Asking a bundle without a service: query and bench."""

import json

import numpy as np
import pytest

from greedy_core import Bundle, GreedyIndex, build_bundle, write_bundle
from tests.service.cli.conftest import ITEMS, USERS


class TestQuery:
    @pytest.fixture
    def model(self, models):
        models.promote("v1")
        return Bundle.open(models.path / "v1")

    def test_a_user(self, ok, model):
        answer = json.loads(ok("query", "--user", 3, "--budget", 12, "--top-k", 4, "--json"))
        expected = model.index.search(USERS[3], top_k=4, budget=12)
        assert [item["item_id"] for item in answer["items"]] == [str(position) for position in expected.ids]
        assert [item["score"] for item in answer["items"]] == expected.scores.tolist()
        assert (answer["user_id"], answer["budget"], answer["spent"]) == ("3", 12, 12)
        assert (answer["complete"], answer["fallback"], answer["model"]) == (False, None, "v1")

    def test_a_table(self, ok, model):
        out = ok("query", "--user", 3, "--budget", 60)
        assert len(out.splitlines()) == 12
        assert "spent 60 of 60 inner products, exact" in out

    def test_an_item_does_not_find_itself(self, ok, model):
        answer = json.loads(ok("query", "--item", 5, "--budget", 60, "--top-k", 60, "--json"))
        assert len(answer["items"]) == 59
        assert "5" not in {item["item_id"] for item in answer["items"]}

    def test_items_in_place_of_a_user(self, ok, model):
        answer = json.loads(ok("query", "--items", "5,7,nothing", "--budget", 12, "--json"))
        made = model.vector_of_items([5, 7])
        expected = model.index.search(made.vector, budget=12, exclude=[5, 7])
        assert [item["item_id"] for item in answer["items"]] == [str(position) for position in expected.ids]
        assert (answer["vector"], answer["unknown_items"], answer["user_id"]) == (made.made, 1, None)

    def test_items_one_by_one_may_have_commas(self, ok, fails, tmp_path):
        build_bundle(
            tmp_path / "commas", items=ITEMS, item_ids=[f"a,{n}" for n in range(len(ITEMS))], directions="axes"
        )
        answer = json.loads(ok("query", "commas", "--items", "a,5", "--items", "a,7", "--items", "b,c", "--json"))
        assert answer["unknown_items"] == 2
        assert not {"a,5", "a,7"} & {item["item_id"] for item in answer["items"]}
        assert "has none of the items 'b', 'c'; check the ids" in fails(1, "query", "commas", "--items", "b,c")

    def test_items_move_a_user(self, ok, model):
        answer = json.loads(ok("query", "--user", 3, "--items", "5", "--budget", 12, "--json"))
        made = model.vector_of_items([5], prior=USERS[3])
        expected = model.index.search(made.vector, budget=12, exclude=[5])
        assert [item["item_id"] for item in answer["items"]] == [str(position) for position in expected.ids]
        assert (answer["vector"], answer["user_id"]) == ("moved", "3")
        assert "the vector was moved by the items; 1 of them not known" in ok(
            "query", "--user", 3, "--items", "5,nothing"
        )

    def test_an_item_by_cosine_where_the_model_can(self, ok, tmp_path, files):
        made = build_bundle(tmp_path / "with", items=ITEMS, directions="axes")
        answer = json.loads(ok("query", "with", "--item", 5, "--budget", 60, "--json"))
        unit = ITEMS / np.linalg.norm(ITEMS, axis=1, keepdims=True)
        cosines = unit @ unit[5]
        cosines[5] = -2
        assert [int(item["item_id"]) for item in answer["items"]] == np.argsort(-cosines)[:10].tolist()
        assert answer["by"] == "cosine"
        other = json.loads(ok("query", "with", "--item", 5, "--by", "inner_product", "--budget", 60, "--json"))
        expected = made.index.search(ITEMS[5], budget=60, exclude=[5])
        assert [int(item["item_id"]) for item in other["items"]] == expected.ids.tolist()
        assert "compared by inner product" in ok("query", "with", "--item", 5, "--by", "inner_product")

    def test_a_vector(self, ok, files, model):
        np.save(files / "vector.npy", USERS[2])
        numbers = ",".join(map(repr, USERS[2].tolist()))
        from_file = json.loads(ok("query", "--vector", "vector.npy", "--budget", 60, "--json"))
        from_text = json.loads(ok("query", f"--vector={numbers}", "--budget", 60, "--json"))
        of_user = json.loads(ok("query", "--user", 2, "--budget", 60, "--json"))
        assert from_file["items"] == from_text["items"] == of_user["items"]

    def test_exclusions(self, ok, model):
        best = json.loads(ok("query", "--user", 1, "--budget", 60, "--json"))["items"]
        hidden = [f"--exclude={item['item_id']}" for item in best[:3]]
        rest = json.loads(ok("query", "--user", 1, "--budget", 57, "--json", "--exclude=unknown", *hidden))
        assert rest["items"][:7] == best[3:]
        assert rest["complete"]

    def test_an_unknown_user_gets_popular_items(self, run, model):
        status, out, _ = run("query", "--user", "nobody", "--json", "--top-k", 3)
        answer = json.loads(out)
        assert status == 0
        assert answer["fallback"] == "unknown_user"
        assert [item["item_id"] for item in answer["items"]] == [str(position) for position in model.popular[:3]]

    def test_a_user_without_a_vector_gets_popular_items_too(self, run, tmp_path):
        vectors = np.vstack([USERS[:1], np.full((1, 8), np.nan)])
        write_bundle(tmp_path / "m", index=GreedyIndex.build(ITEMS), user_vectors=vectors)
        status, out, err = run("query", "m", "--user", "1", "--top-k", 2)
        assert status == 0
        assert len(out.splitlines()) == 4
        assert "User 1 has no vector" in err

    @pytest.mark.parametrize(
        ("status", "arguments", "words"),
        [
            (1, ["--user", "1", "--budget", "0"], "budget"),
            (1, ["--user", "1", "--budget", "-5"], "budget"),
            (1, ["--user", "1", "--budget", "40"], "20"),
            (1, ["--user", "1", "--top-k", "0"], "top_k"),
            (1, ["--item", "nothing"], "no item 'nothing'"),
            (1, ["--items", "nothing"], "none of the items 'nothing'"),
            (2, ["--items", ","], "ids of items with commas"),
            (2, ["--items", "1", "--item", "2"], "goes with --user or --vector, or alone"),
            (1, ["--item", "1", "--by", "cosine"], "no index of similar items"),
            (2, ["--item", "1", "--by", "euclid"], "cosine or inner_product"),
            (2, ["--user", "1", "--by", "cosine"], "goes with --item"),
            (1, ["--vector", "1,2"], "length 2"),
            (1, ["--vector", "nan,1,1,1,1,1,1,1"], "nan"),
            (1, ["--vector", "nothing.npy"], "cannot be read"),
            (2, ["--vector", "a,b"], "no list of numbers"),
            (2, ["--user", "1", "--budget", "many"], "--budget"),
        ],
    )
    def test_bad_questions(self, fails, model, status, arguments, words):
        assert words in fails(status, "query", *arguments)


class TestBench:
    def test_table_and_json(self, ok, models):
        models.promote("v1")
        answer = json.loads(ok("bench", "--budgets", "4,16,60", "--queries", 5, "--json"))
        assert [row["budget"] for row in answer["budgets"]] == [4, 16, 60]
        assert answer["budgets"][-1]["recall@10"] == 1.0
        assert all(row["spent"] <= row["budget"] for row in answer["budgets"])
        assert "recall@10" in ok("bench", "--budgets", "4,16,60", "--queries", 5)

    def test_budgets_out_of_reach_are_left_out(self, run, models):
        status, out, err = run("bench", "models/v1", "--budgets", "4,40", "--json")
        assert status == 0
        assert [row["budget"] for row in json.loads(out)["budgets"]] == [4]
        assert "Budgets above 20" in err

    def test_a_bundle_without_users(self, run, tmp_path):
        write_bundle(tmp_path / "m", index=GreedyIndex.build(ITEMS))
        status, out, err = run("bench", "m", "--budgets", "4", "--json")
        assert status == 0
        assert json.loads(out)["queries"] == 60
        assert "no user vectors" in err

    @pytest.mark.parametrize("budgets", ["", "a", "0", "4,-1"])
    def test_bad_budgets(self, fails, models, budgets):
        assert "--budgets" in fails(2, "bench", "models/v1", "--budgets", budgets)
