"""Similar items by cosine: a second index under the same contract, with neighbours that are known beforehand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedy_core import Bundle, GreedyIndex, SimilarItems, build_bundle, write_bundle
from greedy_core.bundle import storage
from greedy_core.errors import CorruptModelError, InvalidQueryError

N_ITEMS, N_DIMS = 600, 12


def skewed(n_items=N_ITEMS, seed=1):
    """Items of a few topics, some of them a hundred times as long as others."""
    rng = np.random.default_rng(seed)
    topics = rng.standard_normal((10, N_DIMS))
    items = topics[rng.integers(0, 10, n_items)] + 0.5 * rng.standard_normal((n_items, N_DIMS))
    return (items * np.exp(rng.normal(0, 1.2, (n_items, 1)))).astype(np.float32)


ITEMS = skewed()
UNIT = ITEMS / np.linalg.norm(ITEMS.astype(np.float64), axis=1, keepdims=True)


def nearest(query, exclude, count=10):
    """The slow and obvious way."""
    cosines = UNIT @ query
    cosines[exclude] = -2
    return np.argsort(-cosines, kind="stable")[:count], cosines


@pytest.fixture(scope="module", params=["sparse", "graph"])
def similar(request):
    index = GreedyIndex.build(ITEMS, max_budget=256)
    return SimilarItems.build(index, directions=request.param, threads=1)


def search(similar, query, **options):
    return similar.index.search(query.vector, exclude=query.exclude, remembered=query.remembered, **options)


class TestOne:
    def test_the_default_budget_finds_what_a_scan_finds(self, similar):
        for item in range(0, N_ITEMS, 7):
            found = search(similar, similar.query([item]), budget=256)
            true, cosines = nearest(UNIT[item], [item])
            assert found.ids.tolist() == true.tolist()
            np.testing.assert_allclose(found.scores, cosines[true], atol=1e-5)

    def test_no_item_is_similar_to_everything(self, similar):
        named = np.concatenate([search(similar, similar.query([item]), budget=64).ids for item in range(N_ITEMS)])
        by_product = np.argsort(-(ITEMS @ ITEMS.T), axis=1)[:, :10]
        shares = [np.sort(np.bincount(ids.ravel()))[-10:].sum() / ids.size for ids in (named, by_product)]
        assert shares[0] < 0.06 < 0.2 < shares[1]

    def test_an_item_is_not_among_its_neighbours(self, similar):
        for item in range(0, N_ITEMS, 50):
            query = similar.query([item])
            assert query.exclude.tolist() == [item]
            assert item not in query.remembered.tolist()
            assert len(query.remembered) == 64


class TestContract:
    @given(
        st.lists(st.integers(0, N_ITEMS - 1), min_size=1, max_size=6),
        st.integers(1, 255),
        st.lists(st.integers(0, N_ITEMS - 1), max_size=80),
    )
    @settings(max_examples=150, deadline=None)
    def test_the_cap_holds_and_candidates_are_nested(self, similar, items, budget, left_out):
        query = similar.query(items)
        exclude = np.concatenate([query.exclude, np.array(left_out, dtype=np.int32)])
        asked = {"exclude": exclude, "remembered": query.remembered}
        found = similar.index.search(query.vector, budget=budget, **asked)
        again = similar.index.search(query.vector, budget=budget, **asked)
        assert found.spent <= budget
        assert not found.complete
        assert (found.ids.tobytes(), found.scores.tobytes()) == (again.ids.tobytes(), again.scores.tobytes())
        assert not set(found.ids.tolist()) & set(exclude.tolist())
        smaller = similar.index.screen(query.vector, budget, ordered=False, **asked)
        larger = similar.index.screen(query.vector, min(budget + 17, 256), ordered=False, **asked)
        assert set(smaller.tolist()) <= set(larger.tolist())

    def test_all_items_in_the_budget_are_all_scored(self, similar):
        query = similar.query([3, 4])
        found = search(similar, query, budget=N_ITEMS)
        assert (found.spent, found.complete) == (N_ITEMS - 2, True)
        assert found.ids.tolist() == nearest(query.vector, [3, 4])[0].tolist()

    def test_the_curve_is_true(self, similar):
        for curve, count in ((similar.calibration, 1), (similar.calibration.for_vectors, 3)):
            point = next(point for point in curve.points if point.recall_at_10 >= 0.9)
            rng, shares = np.random.default_rng(9), []
            for item in rng.permutation(N_ITEMS)[:200].tolist():
                query = similar.query([item, *rng.integers(0, N_ITEMS, count - 1).tolist()])
                found = search(similar, query, budget=point.budget).ids
                shares.append(np.isin(nearest(query.vector, query.exclude)[0], found).mean())
            assert abs(np.mean(shares) - point.recall_at_10) < 0.04


class TestSeveral:
    def test_the_mean_direction(self, similar):
        query = similar.query([5, 9, 200])
        mean = UNIT[[5, 9, 200]].mean(axis=0)
        np.testing.assert_allclose(query.vector, mean / np.linalg.norm(mean), atol=1e-6)
        assert query.exclude.tolist() == [5, 9, 200]

    def test_weights(self, similar):
        mean = 3 * UNIT[5] + UNIT[9]
        np.testing.assert_allclose(similar.query([9, 5], [1, 3]).vector, mean / np.linalg.norm(mean), atol=1e-6)

    def test_the_order_means_nothing(self, similar):
        first, second = similar.query([5, 9, 200]), similar.query([200, 5, 9])
        assert [part.tobytes() for part in first] == [part.tobytes() for part in second]

    def test_begins_at_the_neighbours_of_each(self, similar):
        together = similar.query([5, 9]).remembered.tolist()
        assert len(set(together)) == len(together) == 64
        assert {similar.query([item]).remembered[0] for item in (5, 9)} == set(together[:2])

    def test_many(self, similar):
        assert len(similar.query(range(N_ITEMS)).remembered) <= 64

    def test_no_items(self, similar):
        with pytest.raises(InvalidQueryError, match="at least one position"):
            similar.query([])


class TestSpecialItems:
    def test_items_of_unit_length_need_no_second_index(self, tmp_path):
        made = build_bundle(tmp_path / "unit", items=UNIT, directions="principal", max_budget=64)
        assert made.similar.shared
        assert made.similar.index is made.index
        assert [name for name in storage.open_arrays(made.path, kind="bundle").arrays if "similar" in name] == [
            "similar.remembered"
        ]
        made.verify()
        found = search(made.similar, made.similar.query([8]), budget=64)
        assert found.ids.tolist() == nearest(UNIT[8], [8])[0].tolist()

    def test_items_without_a_direction(self):
        items = ITEMS[:40].copy()
        items[3] = 0
        similar = SimilarItems.build(GreedyIndex.build(items, max_budget=16), directions="axes")
        found = search(similar, similar.query([3]), budget=16)
        assert found.scores.tolist() == [0.0] * 10
        assert search(similar, similar.query([3, 4]), budget=40).complete

    @pytest.mark.parametrize("n_items", [1, 2, 5])
    def test_few_items(self, tmp_path, n_items):
        made = build_bundle(tmp_path / "few", items=ITEMS[:n_items], directions="axes")
        made.verify()
        found = search(made.similar, made.similar.query([0]), budget=4)
        assert sorted(found.ids.tolist()) == list(range(1, n_items))


class TestBundle:
    @pytest.fixture
    def made(self, tmp_path):
        return build_bundle(tmp_path / "made", items=ITEMS, directions="sparse", max_budget=64)

    def test_comes_back_as_it_was_built(self, made):
        made.verify()
        assert made.similar.calibration.vectors is not None
        assert not made.similar.shared
        item = search(made.similar, made.similar.query([30]), budget=64)
        assert item.ids.tolist() == nearest(UNIT[30], [30])[0].tolist()

    def test_can_be_left_out(self, tmp_path):
        made = build_bundle(tmp_path / "without", items=ITEMS, directions="axes", similar=False)
        assert made.similar is None
        assert not [file for file in made.path.iterdir() if file.name.startswith("similar")]

    def test_an_older_bundle_has_none(self, tmp_path):
        assert write_bundle(tmp_path / "old", index=GreedyIndex.build(ITEMS, max_budget=4)).similar is None

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            ("another item", "names items that do not exist"),
            ("another shape", "does not fit to the items"),
            ("curve", "the curve of similar items cannot be used"),
            ("other items", "holds other items"),
        ],
    )
    def test_damage_is_refused(self, made, tmp_path, damage, message):
        stored = storage.open_arrays(made.path, kind="bundle")
        arrays, info = dict(stored.arrays), dict(stored.info)
        if damage == "another item":
            arrays["similar.remembered"] = np.full((N_ITEMS, 64), N_ITEMS, dtype=np.int32)
        elif damage == "another shape":
            arrays["similar.remembered"] = arrays["similar.remembered"][1:]
        elif damage == "curve":
            info["similar"] = info["similar"] | {"calibration": {}}
        else:
            other = SimilarItems.build(GreedyIndex.build(ITEMS[:50], max_budget=64), directions="axes")
            parts, info["similar"] = other.to_arrays()
            arrays = {name: array for name, array in arrays.items() if not name.startswith("similar")}
            arrays |= {f"similar.{name}": array for name, array in parts.items()}
            info["arrays"] = sorted(arrays)
        storage.write_arrays(tmp_path / "damaged", kind="bundle", arrays=arrays, info=info)
        with pytest.raises(CorruptModelError, match=message):
            Bundle.open(tmp_path / "damaged")

    @pytest.mark.parametrize("damage", ["rows", "neighbours"])
    def test_what_no_build_would_have_made_is_found_by_verify(self, made, tmp_path, damage):
        stored = storage.open_arrays(made.path, kind="bundle")
        arrays = dict(stored.arrays)
        if damage == "rows":
            other = SimilarItems.build(GreedyIndex.build(skewed(seed=2), max_budget=64), directions="sparse")
            arrays |= {f"similar.{name}": array for name, array in other.to_arrays()[0].items()}
        else:
            arrays["similar.remembered"] = arrays["similar.remembered"][:, ::-1].copy()
        storage.write_arrays(tmp_path / "damaged", kind="bundle", arrays=arrays, info=stored.info)
        with pytest.raises(CorruptModelError, match="similar"):
            Bundle.open(tmp_path / "damaged").verify()
