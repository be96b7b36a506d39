"""Pages under rules: the slow reference, and what any rules promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from greedy_core import Boost, ExactIndex, InvalidRulesError, Pin, Rules, collect
from greedy_core.rules.caps import Cap
from greedy_core.rules.collecting import Conditions, boosted
from greedy_core.rules.diversity import pool_size
from tests.core.rules import reference


def shop_of(seed):
    """Items with vectors and values, candidates with scores, and rules; all of it by a seed, since it is much."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    # Few different coordinates, so that there are equal scores, parallel and opposite vectors, and zeros.
    items = rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0], (n, 3)).astype(np.float32)
    query = rng.choice([[1.0, 0.5, 0.25], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]).astype(np.float32)
    products = items @ query
    chosen = rng.permutation(n)[: rng.integers(0, n + 1)].tolist()
    order = sorted(chosen, key=lambda j: (-products[j], j))
    single = lambda: () if rng.random() < 0.2 else (int(rng.integers(3)),)  # noqa: E731
    several = lambda: tuple(rng.permutation(4)[: rng.integers(3)].tolist())  # noqa: E731
    columns = [single, several][: rng.integers(3)]
    table = [[column() for _ in range(n)] for column in columns]
    pinned = rng.permutation(n)[:3].tolist()
    places = (rng.permutation(12)[: rng.integers(4)] + 1).tolist()
    return {
        "items": items,
        "ids": np.array(order, dtype=np.int32),
        "scores": products[order].astype(np.float32),
        "caps": [(int(rng.integers(1, 4)), column) for column in table],
        "factors": rng.choice([0.5, 1.0, 1.0, 2.0], n).tolist() if rng.random() < 0.5 else None,
        "diversity": float(rng.choice([0.0, 0.3, 0.7, 1.0])),
        "pins": dict(zip(places, pinned, strict=False)),
        "allowance": int(rng.integers(0, 120)),
        "more": rng.permutation(n).tolist() if rng.random() < 0.5 else None,
    }


shops = st.integers(0, 2**32 - 1).map(shop_of)


def collected(shop, **page):
    conditions = Conditions(
        [Cap(most, lambda ids, column=column: [column[j] for j in ids.tolist()]) for most, column in shop["caps"]],
        None if shop["factors"] is None else lambda ids: np.array([shop["factors"][j] for j in ids.tolist()]),
        shop["diversity"],
        ExactIndex.build(shop["items"]).products,
        shop["pins"],
    )
    more = np.array(shop["more"] or [], dtype=np.int32)
    parts = None if shop["more"] is None else iter([more[:3], more[3:]])
    return collect(shop["ids"], shop["scores"], conditions, allowance=shop["allowance"], more=parts, **page)


def expected(shop, **page):
    caps = [(most, column.__getitem__) for most, column in shop["caps"]]
    given = {name: value for name, value in shop.items() if name not in ("caps", "more")}
    return reference.page(**given, caps=caps, more=shop["more"] or (), **page)


@given(shops, st.integers(1, 12), st.integers(0, 8))
def test_a_page_is_that_of_the_reference(shop, top_k, offset):
    found = collected(shop, top_k=top_k, offset=offset)
    ids, scores, spent = expected(shop, top_k=top_k, offset=offset)
    assert found.ids.tolist() == ids
    assert found.spent == spent
    np.testing.assert_array_equal(found.scores, np.array([np.nan if s is None else s for s in scores], np.float32))


@given(shops, st.integers(1, 30))
def test_nothing_is_broken(shop, top_k):
    found = collected(shop, top_k=top_k)
    ids = found.ids.tolist()
    assert len(set(ids)) == len(ids) <= top_k
    assert found.spent <= shop["allowance"]
    for most, column in shop["caps"]:
        counts = {}
        for item in ids:
            for value in column[item]:
                counts[value] = counts.get(value, 0) + 1
        assert max(counts.values(), default=0) <= most
    kept = {place: item for place, item in shop["pins"].items() if item not in found.crossed}
    for place, item in kept.items():
        if place <= len(ids):
            assert item in ids[:place]
            # Only behind the end of everything else a pin moves up.
            assert ids[place - 1] == item or set(ids[ids.index(item) :]) <= set(kept.values())
    assert set(ids) <= set(shop["ids"].tolist()) | set(kept.values()) | set(shop["more"] or ())


@given(shops, st.integers(1, 30))
def test_a_page_that_can_be_full_is_full(shop, top_k):
    found = collected(shop, top_k=top_k)
    ids = found.ids.tolist()
    if len(ids) == top_k:
        return
    # Whatever is left of the candidates does not fit, and nothing that stands in does either, where anything may.
    caps = [(most, column.__getitem__) for most, column in shop["caps"]]
    left = set(shop["ids"].tolist()) - set(ids) - set(shop["pins"].values())
    assert not [item for item in left if reference.fits(item, ids, caps)]
    if left or not len(shop["ids"]):
        others = set(shop["more"] or ()) - set(ids) - set(shop["ids"].tolist()) - set(shop["pins"].values())
        assert not [item for item in others if reference.fits(item, ids, caps)]


@given(shops, st.integers(1, 5))
def test_pages_put_together_are_one_long_answer(shop, size):
    whole = collected(shop, top_k=30)
    pages = [collected(shop, top_k=size, offset=offset) for offset in range(0, 30, size)]
    assert np.concatenate([page.ids for page in pages])[:30].tolist() == whole.ids.tolist()
    np.testing.assert_array_equal(np.concatenate([page.scores for page in pages])[:30], whole.scores)


@given(shops)
def test_without_rules_a_page_is_what_was_found(shop):
    found = collected(shop | {"caps": [], "factors": None, "diversity": 0.0, "pins": {}, "more": None}, top_k=5)
    assert found.ids.tolist() == shop["ids"][:5].tolist()
    assert found.scores.tobytes() == shop["scores"][:5].tobytes()
    assert found.changed == ()


@given(hnp.arrays(np.float32, 8, elements=st.floats(-(2.0**100), 2.0**100, width=32)), st.floats(0.01, 100))
def test_a_factor_moves_no_score_the_wrong_way(scores, factor):
    found = boosted(scores, np.full(8, factor))
    assert np.isfinite(found).all()
    assert (found >= scores).all() if factor >= 1 else (found <= scores).all()


def test_one_cap_of_one_value_fills_every_page_that_can_be():
    # Two of each of five values are ten items, wherever they stand among a hundred.
    column = [(j % 5,) for j in range(50)] + [(0,)] * 50
    ids = np.arange(99, -1, -1, dtype=np.int32)
    scores = np.linspace(5, 1, 100, dtype=np.float32)
    cap = Cap(2, lambda asked: [column[j] for j in asked.tolist()])
    found = collect(ids, scores, Conditions([cap]), top_k=10)
    assert found.ids.tolist() == [99, 98, 49, 48, 47, 46, 44, 43, 42, 41]
    assert (found.left_out, found.changed) == (49, ("at_most",))


def test_items_without_a_value_are_not_counted_and_lists_count_for_each_of_theirs():
    column = [(), (), (), (1, 2), (2, 3), (1,), (3,)]
    ids = np.arange(7, dtype=np.int32)
    cap = Cap(1, lambda asked: [column[j] for j in asked.tolist()])
    found = collect(ids, -ids.astype(np.float32), Conditions([cap]), top_k=7)
    assert found.ids.tolist() == [0, 1, 2, 3, 6]
    assert found.left_out == 2


def test_diversity_takes_turns():
    # Two directions: four good items in one, two worse in the other.
    items = np.array([[1, 0], [0.99, 0], [0.98, 0], [0.97, 0], [0, 0.8], [0, 0.7]], dtype=np.float32)
    scores = (items @ np.array([1, 1], dtype=np.float32)).astype(np.float32)
    ids = np.arange(6, dtype=np.int32)
    products = ExactIndex.build(items).products
    found = collect(ids, scores, Conditions(diversity=0.5, products=products), top_k=4, allowance=60)
    assert found.ids.tolist() == [0, 4, 1, 2]
    assert found.scores.tolist() == scores[[0, 4, 1, 2]].tolist()
    assert (found.diverse, found.moved) == (4, True)
    # Without a product there is nothing to compare with: all but the first place go by score.
    found = collect(ids, scores, Conditions(diversity=0.5, products=products), top_k=4)
    assert (found.ids.tolist(), found.spent, found.diverse) == ([0, 1, 2, 3], 0, 1)


@pytest.mark.parametrize("allowance", [0, 1, 54, 55, 64, 128, 1000])
def test_the_pool_is_compared_within_the_allowance(allowance):
    n = pool_size(allowance)
    places = min(10, n)
    assert n + sum(n - place for place in range(1, places)) <= allowance + (45 if n < 10 else 0)


def test_pins_stand_at_their_places_and_move_up_at_the_end():
    ids = np.arange(4, dtype=np.int32)
    scores = np.array([4, 3, 2, 1], dtype=np.float32)
    found = collect(ids, scores, Conditions(pins={2: 9, 3: 0, 8: 7}), top_k=10)
    assert found.ids.tolist() == [1, 9, 0, 2, 3, 7]
    np.testing.assert_array_equal(found.scores, np.array([3, np.nan, 4, 2, 1, np.nan], dtype=np.float32))
    assert (found.placed, found.changed) == (3, ("pin",))
    # One that is pinned to a later page is not on the first.
    assert collect(ids, scores, Conditions(pins={8: 0}), top_k=2).ids.tolist() == [1, 2]


def test_rules_that_make_no_sense():
    for broken, said in [
        (lambda: Rules(at_most={"author": 0}), "at_most allows 0 items"),
        (lambda: Rules(at_most={str(n): 1 for n in range(9)}), "at_most has 9 entries"),
        (lambda: Rules(diversity=1.5), "diversity is 1.5"),
        (lambda: Rules(diversity=float("nan")), "diversity is nan"),
        (lambda: Boost("in_stock", 0.0), "boost has the factor 0"),
        (lambda: Boost(" ", 2.0), "boost has an empty filter"),
        (lambda: Pin(0, "a"), "pin has the place 0"),
        (lambda: Pin(1, ""), "pin names no item for place 1"),
        (lambda: Rules(pin=(Pin(1, "a"), Pin(1, "b"))), "pin names the place 1 twice"),
        (lambda: Rules(pin=(Pin(1, "a"), Pin(2, "a"))), "pin names the item a twice"),
    ]:
        with pytest.raises(InvalidRulesError, match=said):
            broken()
