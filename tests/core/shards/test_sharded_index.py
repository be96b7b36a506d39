"""Several shards keep the promises of one index: the cap, nesting, determinism, exactness, filters and exclusions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greedy_core import Eligible, ExactIndex, GreedyIndex, InvalidBudgetError, InvalidQueryError
from greedy_core.fit.directions import Axes
from greedy_core.index import Whole
from greedy_core.shards.index import ShardedIndex
from greedy_core.shards.places import Places, deal

N_ITEMS, N_DIMS = 900, 8
RNG = np.random.default_rng(17)
SCALE = np.linspace(2, 0.2, N_DIMS)
# Some items are alike, so that scores are tied across shards.
ITEMS = (RNG.standard_normal((N_ITEMS, N_DIMS)) * SCALE).astype(np.float32).round(1)
ITEMS[1::7] = ITEMS[0::7][: len(ITEMS[1::7])]
QUERIES = (RNG.standard_normal((40, N_DIMS)) * SCALE).astype(np.float32)
EXACT = ExactIndex.build(ITEMS)


def in_shards(n_shards, directions):
    places = Places.of(deal(ITEMS, n_shards), n_shards)
    whole = Whole(Axes(ITEMS, None), ITEMS.mean(axis=0))
    parts = [np.ascontiguousarray(ITEMS[places.in_shard(number)]) for number in range(n_shards)]
    first = GreedyIndex.build(parts[0], QUERIES, directions, max_budget=256, whole=whole)
    others = [first.of_others(part, QUERIES, centre=whole.centre) for part in parts[1:]]
    return ShardedIndex([first, *others], places)


KINDS = [(1, "principal"), (3, "principal"), (4, "sparse"), (3, "graph")]
SHARDED = {f"{kind}-{number}": in_shards(number, kind) for number, kind in KINDS}
INDEXES = st.sampled_from(sorted(SHARDED)).map(SHARDED.__getitem__)
QUERY = st.integers(0, len(QUERIES) - 1).map(QUERIES.__getitem__)
BUDGET = st.integers(1, 256)
POSITIONS = st.lists(st.integers(0, N_ITEMS - 1), max_size=60).map(lambda given: np.array(given, dtype=np.int32))
MASKS = st.one_of(
    st.none(),
    st.builds(
        lambda seed, share: Eligible.from_mask(np.random.default_rng(seed).random(N_ITEMS) < share),
        st.integers(0, 50),
        st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]),
    ),
)


def remembered_by(index, query):
    return index.remember(query[None], 20)[0]


@given(INDEXES, QUERY, BUDGET, POSITIONS, MASKS, st.booleans(), st.integers(1, 30))
def test_the_cap_holds_and_the_answer_is_true(index, query, budget, exclude, eligible, hinted, top_k):
    hint = remembered_by(index, query) if hinted else None
    found = index.search(query, top_k, budget, exclude, None, hint, eligible)
    assert found.spent <= budget
    allowed = np.ones(N_ITEMS, dtype=bool) if eligible is None else eligible.mask()
    allowed[exclude] = False
    assert allowed[found.ids].all()
    assert found.eligible == allowed.sum()
    most = min(top_k, budget, found.eligible)
    # A walk spends a part of a small budget on its way.
    assert min(1, most) <= len(found.ids) <= most if index.has_graph else len(found.ids) == most
    assert len(set(found.ids.tolist())) == len(found.ids)
    # The largest first, ties to the smaller position; and what it costs to be exact is exact.
    order = np.lexsort((found.ids, -found.scores))
    assert (order == np.arange(len(order))).all()
    assert found.complete == (budget >= found.eligible)
    if found.complete:
        exact = EXACT.search(query, top_k, 2**31, exclude, eligible=eligible)
        assert (exact.ids == found.ids).all()
        assert exact.scores.tobytes() == found.scores.tobytes()


@given(INDEXES, QUERY, BUDGET, POSITIONS, MASKS, st.booleans())
def test_more_budget_never_loses_an_item(index, query, budget, exclude, eligible, hinted):
    hint = remembered_by(index, query) if hinted else None

    def found(products):
        return index.search(query, products, products, exclude, None, hint, eligible, 10).ids.tolist()

    assert set(found(budget)) <= set(found(min(budget + 1, 256)))


@given(INDEXES, QUERY, BUDGET)
def test_remembered_items_cost_what_they_cost_in_one_index(index, query, budget):
    hint = remembered_by(index, query)
    found = index.search(query, budget, budget, None, None, hint)
    assert set(hint[:budget].tolist()) <= set(found.ids.tolist())


@given(INDEXES, st.lists(st.tuples(QUERY, BUDGET, POSITIONS, MASKS), min_size=1, max_size=6))
def test_a_batch_is_its_queries(index, asked):
    queries, budgets, excludes, masks = zip(*asked, strict=True)
    together = index.search_batch(np.array(queries), 10, list(budgets), excludes, eligible=masks, threads=2)
    for (query, budget, exclude, mask), result in zip(asked, together, strict=True):
        alone = index.search(query, 10, budget, exclude, eligible=mask)
        assert (alone.ids == result.ids).all()
        assert alone.scores.tobytes() == result.scores.tobytes()
        assert alone[2:4] + alone[5:] == result[2:4] + result[5:]


def test_one_shard_answers_as_the_index_that_it_is():
    index = SHARDED["principal-1"]
    for query in QUERIES[:10]:
        one, sharded = index.shards[0].search(query, 10, 64), index.search(query, 10, 64)
        assert (one.ids == sharded.ids).all()
        assert one[2:] == sharded[2:]


@given(INDEXES, st.integers(0, N_ITEMS - 1), POSITIONS)
def test_items_are_where_they_were(index, item, others):
    whole = EXACT.products(item, others)
    assert whole.tobytes() == index.products(item, others).tobytes()
    vectors, places = index.some_items(others)
    assert (vectors[places] == ITEMS[others]).all()


def test_what_is_known_of_all_items_is_put_together():
    index = SHARDED["sparse-4"]
    assert (index.items == ITEMS).all()
    np.testing.assert_allclose(index.mean(), ITEMS.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(index.lengths(), np.linalg.norm(ITEMS, axis=1), rtol=1e-5)
    np.testing.assert_allclose(index.with_all(QUERIES[0]), ITEMS @ QUERIES[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(index.gram(), ITEMS.T.astype(float) @ ITEMS, rtol=1e-6)


def test_codes_of_all_shards_leave_out_the_same():
    index = SHARDED["graph-3"]
    centres = [shard.to_arrays()[0]["graph_centre"] for shard in index.shards]
    assert all((centre == ITEMS.mean(axis=0)).all() for centre in centres)
    axes = [shard.to_arrays()[0]["axes"].tobytes() for shard in index.shards]
    assert len(set(axes)) == 1
    for shard in index.shards:
        shard.verify()


@pytest.mark.parametrize("budget", [0, -1, 1.5, True, "10"])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(InvalidBudgetError, match="budget must be"):
        SHARDED["principal-3"].search(QUERIES[0], 10, budget)


def test_a_budget_past_the_lists_is_refused():
    with pytest.raises(InvalidBudgetError, match="above this index's max_budget of 256 and below the 900 products"):
        SHARDED["principal-3"].search(QUERIES[0], 10, 257)


def test_what_does_not_fit_is_refused():
    index = SHARDED["principal-3"]
    with pytest.raises(InvalidQueryError, match="remembers item 900"):
        index.search(QUERIES[0], 10, 64, remembered=np.array([3, 900], dtype=np.int32))
    with pytest.raises(InvalidQueryError, match="the eligible items are of 5"):
        index.search(QUERIES[0], 10, 64, eligible=Eligible.from_mask(np.ones(5, dtype=bool)))
    with pytest.raises(InvalidQueryError, match="rows with 8 values"):
        index.search_batch(QUERIES[:, :3])
    with pytest.raises(InvalidQueryError, match="2 budgets for 3 queries"):
        index.search_batch(QUERIES[:3], 10, [1, 2])
