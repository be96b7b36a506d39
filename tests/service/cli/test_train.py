"""`budgetrec train`: from a table to a promoted bundle, with every option, and what it refuses before the work."""

import csv
import json
import random
import sys

import pytest

from greedy_core import Bundle, Quality, VersionsFolder

TOPICS = ("jazz", "cooking", "chess")


@pytest.fixture
def tables(tmp_path):
    """Readers of three tastes, and the books."""
    draw = random.Random(1)
    with (tmp_path / "events.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["reader", "book", "day", "stars", "pages"])
        for reader in range(120):
            for _ in range(12):
                topic = TOPICS[reader % 3] if draw.random() < 0.9 else draw.choice(TOPICS)
                day = f"2026-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
                rows.writerow(
                    [f"r{reader}", f"{topic}-{draw.randint(0, 19)}", day, draw.randint(1, 5), draw.randint(1, 300)]
                )
    with (tmp_path / "books.csv").open("w", newline="", encoding="utf-8-sig") as file:
        rows = csv.writer(file)
        rows.writerow(["book", "name", "topic", "price", "printed", "sold, out"])
        rows.writerows(
            [f"{topic}-{n}", f"The {topic} book, volume {n}", topic, n + 0.5 if n else "", "2024-05-01", n % 2 == 0]
            for topic in TOPICS
            for n in range(20)
        )
    return tmp_path


COLUMNS = ("--user", "reader", "--item", "book")
SMALL = ("--factors", 8, "--iterations", 5)


def test_from_a_csv_to_a_promoted_model_that_knows_tastes(run, ok, tables):
    status, out, err = run(
        "train", "events.csv", *COLUMNS, "--time", "day", "--items", "books.csv", *SMALL, "--models", "models",
        "--version", "v1", "--promote", "--metadata", "team=books",
    )  # fmt: skip
    assert status == 0, err
    assert "v1 is now the current version in models" in out
    # Piped, a line per stage.
    assert "reading events: " in err
    assert "1,440 events of 120 users and 60 items." in err
    assert "training on everything (als): " in err
    assert "measuring on what was held out: " in err
    for words in (
        "hit rate@10",
        "popular items",
        "share kept",
        "recall@10 against exact search",
        "trained without what",
    ):
        assert words in out
    assert "On real behaviour: trained on what happened before 2026-" in out
    opened = Bundle.open(tables / "models" / "v1")
    assert opened.quality.exact.ndcg_at_10 > opened.quality.popular.ndcg_at_10
    assert opened.has_seen
    assert opened.metadata["team"] == "books"
    assert opened.metadata["trained"]["alpha"] == 20
    assert opened.title(opened.item_position("jazz-3")) == "The jazz book, volume 3"
    assert "the column sold, out of books.csv is no attribute" in err
    assert [(each["name"], each["type"]) for each in opened.attributes.describe()] == [
        ("name", "text"),
        ("topic", "text"),
        ("price", "number"),
        ("printed", "time"),
    ]
    filtered = ("--filter", 'topic = "chess" and price < 9 and printed < 2025-01-01', "--json")
    answer = json.loads(ok("query", "models", "--user", "r3", *filtered))
    assert {item["item_id"] for item in answer["items"]} <= {f"chess-{n}" for n in range(1, 9)}
    assert answer["eligible"] > 0
    answer = json.loads(ok("query", "models", "--user", "r3", "--top-k", 3, "--json"))
    assert all(item["item_id"].startswith("jazz") for item in answer["items"])
    inspected = ok("inspect", "models/v1")
    for words in (
        "hit rate@10",
        "share kept",
        "where the bytes go",
        "user vectors",
        "seen items",
        "matrices of the fold-in",
        "folded in from what they met",
    ):
        assert words in inspected
    assert Quality.from_dict(json.loads(ok("inspect", "models/v1", "--json"))["quality"]) == opened.quality


def test_weights_ratings_filters_and_another_model(run, tables):
    status, out, err = run(
        "train", "events.csv", *COLUMNS, "--weight", "pages", "--rating", "stars", "--min-rating", 2, "--min-user", 3,
        "--min-item", 3, "--model", "bpr", *SMALL, "--learning-rate", 0.1, "--no-quality", "--output", "m",
    )  # fmt: skip
    assert status == 0, err
    assert "events count as seen only: rated less than 2." in err
    assert "hit rate" not in out
    opened = Bundle.open(tables / "m")
    assert opened.quality is None
    assert opened.metadata["trained"]["kind"] == "bpr"


def test_tuning_shows_what_was_tried(run, tables):
    status, out, err = run("train", "events.csv", *COLUMNS, *SMALL, "--tune", "--regularization", 0.1, "--output", "m")
    assert status == 0, err
    assert "trying 4 of 4 (als): " in err
    assert out.splitlines()[0].split() == ["factors", "alpha", "regularization", "NDCG@10"]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("events.csv", "--models", "m", "--output", "n"), 2, "give either --output DIRECTORY or --models FOLDER"),
        (("events.csv", "--output", "n", "--promote"), 2, "--promote needs --models"),
        (("events.csv", "--output", "n", "--model", "svd"), 2, "'svd' is none of als, bpr, lmf"),
        (("events.csv", "--output", "n", "--learning-rate", 1), 2, "learning_rate means nothing to the model als"),
        (("events.csv", "--output", "n", "--min-rating", 1), 2, "--min-rating needs --rating"),
        (("events.csv", "--output", "n"), 1, "has no column called user_id; name the column of users with --user"),
        (("events.csv", *COLUMNS[:2], "--item", "isbn", "--output", "n"), 1, "reader, book, day, stars, pages"),
        (("none.csv", "--output", "n"), 1, "none.csv does not exist"),
        (("events.csv", "--user", "book", "--item", "book", "--output", "n"), 1, "name two columns"),
    ],
)
def test_refusals_are_one_line_before_the_work(fails, tables, arguments, status, words):
    assert words in fails(status, "train", *arguments)


def test_items_of_another_table(run, tables):
    (tables / "other.csv").write_text("book,title\nx,y\n")
    status, _, err = run("train", "events.csv", *COLUMNS, "--items", "other.csv", "--output", "n")
    assert status == 1
    assert "no row of other.csv is about an item of this model" in err.splitlines()[-1]
    (tables / "strange.csv").write_text("isbn,title\njazz-1,y\n")
    status, _, err = run("train", "events.csv", *COLUMNS, "--items", "strange.csv", "--output", "n")
    assert "its columns are: isbn, title; name one with --item-id." in err.splitlines()[-1]
    status, _, err = run("train", "events.csv", *COLUMNS, "--items", "books.csv", "--title", "price", "--output", "n")
    assert "has no column of texts called price; check --title." in err.splitlines()[-1]
    (tables / "twice.csv").write_text("book,title\njazz-1,y\njazz-1,z\n")
    status, _, err = run("train", "events.csv", *COLUMNS, "--items", "twice.csv", "--output", "n")
    assert "twice.csv has the item 'jazz-1' twice, in rows 0 and 1" in err.splitlines()[-1]


def test_without_the_extra_the_advice_works_from_a_checkout(run, tables, monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    status, _, err = run("train", "events.csv", *COLUMNS, "--no-quality", "--output", "n")
    assert status == 1
    assert "needs implicit, which is not installed; in a checkout of budgetrec, run: pip install '.[train]'." in err


def test_a_version_that_is_there_is_refused_at_once(fails, ok, tables):
    ok("train", "events.csv", *COLUMNS, *SMALL, "--no-quality", "--models", "models", "--version", "v1")
    assert VersionsFolder(tables / "models").current_version() is None
    line = fails(1, "train", "events.csv", *COLUMNS, "--models", "models", "--version", "v1")
    assert "models/v1 already exists" in line


def test_a_model_that_is_worse_than_the_popular_items_is_not_made_current(run, tables):
    # Everybody meets the same few items, and much regularization leaves nothing of them.
    draw = random.Random(3)
    rows = [f"u{n % 60},i{int(60 * draw.random() ** 4)}" for n in range(900)]
    (tables / "popular.csv").write_text("\n".join(["user_id,item_id", *rows]))
    poor = ("train", "popular.csv", *SMALL, "--regularization", 900)
    status, _, err = run(*poor, "--models", "models", "--version", "v1", "--promote")
    assert status == 1
    assert "not made current: the model foretells less than the popular items do" in err
    assert "budgetrec promote v1 --models models" in err
    assert VersionsFolder(tables / "models").current() is None
    status, _, err = run(*poor, "--output", "poor")
    assert status == 0, err
    assert "Beware: the model foretells less" in err
