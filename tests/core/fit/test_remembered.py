"""How much is spent on finding what is remembered: as much as it needs, and never hours."""

import numpy as np
import pytest

from greedy_core import GreedyIndex
from greedy_core.fit import remembered

RNG = np.random.default_rng(3)
ITEMS = RNG.normal(size=(2000, 8)).astype(np.float32)
QUERIES = RNG.normal(size=(300, 8)).astype(np.float32)
INDEX = GreedyIndex.build(ITEMS, max_budget=512)
SCAN = len(ITEMS)


class Noting:
    """A real index, and the budgets that it was searched with."""

    n_items, max_budget = INDEX.n_items, INDEX.max_budget

    def __init__(self):
        self.budgets = []

    def search_batch(self, queries, *, budget, **options):
        self.budgets.append(budget)
        return INDEX.search_batch(queries, budget=budget, **options)


@pytest.fixture(autouse=True)
def few_budgets(monkeypatch):
    monkeypatch.setattr(remembered, "_BUDGETS", (64, 128, 192))


def spent(monkeypatch, *, enough=0.998, **limits):
    monkeypatch.setattr(remembered, "_ENOUGH", enough)
    for name, value in limits.items():
        monkeypatch.setattr(remembered, f"_{name.upper()}", value)
    index = Noting()
    found = remembered.find_remembered(index, QUERIES)
    assert found.shape == (300, 64)
    best = [
        len(set(row[:10]) & set(true)) for row, true in zip(found, np.argsort(-QUERIES @ ITEMS.T)[:, :10], strict=True)
    ]
    return index.budgets[-1], sum(best) / 3000


def test_the_first_budget_that_finds_nearly_all(monkeypatch):
    recalls = {}
    for enough in (0.0, 0.5, 0.9):
        budget, recall = spent(monkeypatch, enough=enough)
        recalls[budget] = recall
        assert recall >= enough - 0.05  # the budget is chosen by a sample of the queries
    assert min(recalls) == 64
    assert sorted(recalls.values()) == [recall for _, recall in sorted(recalls.items())]


def test_a_budget_that_leaves_places_free_is_passed_over(monkeypatch):
    """Rows that end early are refused when a model is opened."""
    monkeypatch.setattr(remembered, "_BUDGETS", (8, 64))
    assert spent(monkeypatch, enough=0.0)[0] == 64
    assert spent(monkeypatch, enough=0.0, most_scanned=0, most_products=1)[0] == 64


def test_a_scan_where_none_does(monkeypatch):
    assert spent(monkeypatch, enough=1.1) == (SCAN, 1.0)


@pytest.mark.parametrize(("products", "budget"), [(300 * 192, 192), (300 * 191, 128), (300 * 20, 64), (1, 64)])
def test_so_many_queries_that_a_scan_takes_hours_get_what_takes_minutes(monkeypatch, products, budget):
    limits = {"most_scanned": 300 * SCAN - 1, "most_products": products}
    assert spent(monkeypatch, enough=1.1, **limits)[0] == budget


def test_an_index_that_ends_below_it_is_not_scanned_either(monkeypatch):
    monkeypatch.setattr(Noting, "max_budget", 64)
    assert spent(monkeypatch, enough=1.1, most_scanned=0)[0] == 64
