"""Searches under rules on a real index: the budget holds, pages are one ranking, and all is that of the reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedy_core import (
    Attributes,
    Boost,
    Eligible,
    Filter,
    GreedyIndex,
    InvalidRulesError,
    Pin,
    Rules,
    apply_rules,
    popular_parts,
    popular_with_rules,
    search_with_rules,
)
from greedy_core.rules.searching import PAGE, search_budget
from tests.core.rules import reference

N_ITEMS = 600
RNG = np.random.default_rng(5)
VECTORS = RNG.standard_normal((N_ITEMS, 8)).astype(np.float32)
AUTHORS = [None if n % 17 == 0 else f"a{n % 12}" for n in range(N_ITEMS)]
TAGS = [None if n % 9 == 0 else [f"t{n % 4}", f"t{n % 6}"] for n in range(N_ITEMS)]
ATTRIBUTES = Attributes.from_columns({"author": AUTHORS, "tags": TAGS, "price": np.arange(N_ITEMS) % 40}, N_ITEMS)
IDS = {str(n): n for n in range(N_ITEMS)}
POPULAR = RNG.permutation(N_ITEMS).astype(np.int32)
RULES = [
    Rules(),
    Rules(at_most={"author": 1}),
    Rules(at_most={"author": 2, "tags": 3}),
    Rules(diversity=0.4),
    Rules(boost=(Boost("price < 10", 2.0), Boost('tags contains "t1"', 0.5))),
    Rules(pin=(Pin(1, "5"), Pin(4, "nobody"), Pin(12, "7"), Pin(3, "8"))),
    Rules({"author": 2}, 0.7, (Boost("price < 10", 1.5),), (Pin(2, "9"),)),
]


@pytest.fixture(scope="module", params=["principal", "graph"])
def index(request):
    return GreedyIndex.build(VECTORS, queries=VECTORS[:100] + 0.1, directions=request.param, max_budget=256)


def positions_of(ids):
    return np.array([IDS.get(text, -1) for text in ids], dtype=np.int32)


def let_through(text):
    return Filter(text).eligible(ATTRIBUTES)


def ask(index, query, rules, *, eligible=None, exclude=None, budget=64, **page):
    applied = apply_rules(
        rules, ATTRIBUTES, positions_of, let_through, excluded=exclude, eligible=eligible, products=index.products
    )
    more = popular_parts(POPULAR, exclude, eligible)
    return search_with_rules(
        index, query, applied, budget=budget, exclude=exclude, eligible=eligible, more=more, **page
    ), applied


QUERIES = st.integers(0, 2**32 - 1).map(lambda s: np.random.default_rng(s).standard_normal(8).astype(np.float32))
FILTERED = st.sampled_from([None, "price < 20", "price < 2"]).map(
    lambda text: None if text is None else let_through(text)
)


@settings(max_examples=60)
@given(QUERIES, st.sampled_from(RULES), st.integers(1, 900), FILTERED, st.integers(1, 15), st.integers(0, 20))
def test_the_budget_holds_and_the_page_is_that_of_the_reference(index, query, rules, budget, eligible, top_k, offset):
    exclude = np.array([8, 20, 31], dtype=np.int32)
    if 256 < budget < N_ITEMS and not (eligible is not None and budget >= eligible.count):
        budget = 256
    found, applied = ask(
        index, query, rules, eligible=eligible, exclude=exclude, budget=budget, top_k=top_k, offset=offset
    )
    result = found.result
    assert result.spent <= budget
    spend = search_budget(index, budget, eligible) if rules.diversity else budget
    plain = index.search(query, N_ITEMS, spend, exclude, eligible=eligible, page=PAGE)
    factors = np.ones(N_ITEMS)
    for boost in rules.boost:
        factors[let_through(boost.filter).mask()] *= boost.factor
    columns = {"author": AUTHORS, "tags": TAGS}
    allowed = [j for j in POPULAR.tolist() if j not in exclude.tolist() and (eligible is None or j in eligible)]
    ids, scores, spent = reference.page(
        VECTORS,
        plain.ids,
        plain.scores,
        caps=[(most, lambda j, name=name: _values(columns[name][j])) for name, most in rules.at_most.items()],
        factors=factors,
        diversity=rules.diversity,
        pins={pin.place: IDS[pin.item_id] for pin in rules.pin if pin.item_id in IDS and IDS[pin.item_id] in allowed},
        allowance=budget - plain.spent,
        more=allowed if rules.at_most and not plain.complete else (),
        top_k=top_k,
        offset=offset,
    )
    assert result.ids.tolist() == ids
    np.testing.assert_allclose(result.scores, np.array([np.nan if s is None else s for s in scores], np.float32))
    assert found.collected.spent == spent == result.spent - plain.spent
    assert set(applied.receipt(found.collected)) == {
        rule for rule in ("boost", "at_most", "diversity", "pin") if getattr(rules, rule)
    }


def _values(value):
    return () if value is None else tuple(dict.fromkeys(value)) if isinstance(value, list) else (value,)


@settings(max_examples=30)
@given(QUERIES, st.sampled_from(RULES), FILTERED, st.sampled_from([16, 64, 200, 900]))
def test_pages_put_together_are_one_long_answer(index, query, rules, eligible, budget):
    whole = ask(index, query, rules, eligible=eligible, budget=budget, top_k=40)[0].result
    pages = [
        ask(index, query, rules, eligible=eligible, budget=budget, top_k=8, offset=at)[0].result
        for at in range(0, 40, 8)
    ]
    assert np.concatenate([page.ids for page in pages]).tolist() == whole.ids.tolist()
    assert b"".join(page.scores.tobytes() for page in pages) == whole.scores.tobytes()


@settings(max_examples=30)
@given(QUERIES, FILTERED, st.integers(1, 255))
def test_more_budget_is_never_worse(index, query, eligible, budget):
    # One value each, no diversity: greedy is the best that can be had of the candidates, and these are nested.
    rules = Rules(at_most={"author": 2}, boost=(Boost("price < 10", 2.0),))
    less, more = (ask(index, query, rules, eligible=eligible, budget=each)[0].result for each in (budget, budget + 1))
    scored = [np.nan_to_num(each.scores, nan=-np.inf) for each in (less, more)]
    n = len(scored[0])
    assert (np.sort(scored[1])[::-1][:n] >= np.sort(scored[0])[::-1]).all()
    assert search_budget(index, budget) <= search_budget(index, budget + 1)


def test_a_tight_cap_is_filled_with_popular_items_that_fit(index):
    rules = Rules(at_most={"author": 1})
    found = ask(index, VECTORS[3], rules, budget=4, top_k=10)[0]
    authors = [AUTHORS[j] for j in found.result.ids.tolist() if AUTHORS[j]]
    assert len(set(authors)) == len(authors)
    if found.collected.left_out:
        assert len(found.result.ids) == 10
        assert found.collected.filled == int(np.isnan(found.result.scores).sum()) > 0


def test_popular_items_keep_filter_exclusions_caps_and_pins():
    rules = Rules(at_most={"author": 1}, pin=(Pin(2, "7"), Pin(3, "8")), boost=(Boost("price < 3", 9.0),))
    eligible, exclude = let_through("price < 20"), np.array([8, *POPULAR[:3].tolist()], dtype=np.int32)
    applied = apply_rules(rules, ATTRIBUTES, positions_of, let_through, excluded=exclude, eligible=eligible)
    whole = popular_with_rules(POPULAR, applied, top_k=12, excluded=exclude, eligible=eligible)
    ids = whole.ids.tolist()
    assert ids[1] == 7
    assert all(j in eligible and j not in exclude for j in ids)
    authors = [AUTHORS[j] for j in ids if AUTHORS[j]]
    assert len(set(authors)) == len(authors)
    order = POPULAR.tolist()
    others = [order.index(j) for j in ids if j != 7]
    assert others == sorted(others)
    assert applied.receipt(whole)["pin"] == {"placed": 1, "left_out": [{"item_id": "8", "because": "excluded"}]}
    parts = [
        popular_with_rules(POPULAR, applied, top_k=5, offset=at, excluded=exclude, eligible=eligible) for at in (0, 5)
    ]
    assert [j for part in parts for j in part.ids.tolist()] == ids[:10]


def test_a_pin_that_a_cap_leaves_out_is_named(index):
    same = [n for n in range(N_ITEMS) if AUTHORS[n] == "a1"][:2]
    rules = Rules(at_most={"author": 1}, pin=(Pin(1, str(same[0])), Pin(2, str(same[1]))))
    found, applied = ask(index, VECTORS[0], rules)
    assert found.result.ids[0] == same[0]
    assert same[1] not in found.result.ids
    assert applied.receipt(found.collected)["pin"]["left_out"] == [{"item_id": str(same[1]), "because": "at_most"}]


def test_a_cap_needs_its_attribute(index):
    with pytest.raises(
        InvalidRulesError, match=r"at_most cannot be kept: there is no attribute 'auhtor' \(did you mean author\?\)"
    ):
        ask(index, VECTORS[0], Rules(at_most={"auhtor": 1}))


def test_products_of_items_are_those_of_the_kernel(index):
    others = np.array([0, 5, 5, 599], dtype=np.int32)
    np.testing.assert_allclose(index.products(5, others), VECTORS[others] @ VECTORS[5], rtol=1e-5)
    assert (
        index.products(5, others[1:2]).tobytes()
        == index.search(VECTORS[5], 1, N_ITEMS, eligible=Eligible.from_positions([5], N_ITEMS)).scores.tobytes()
    )
