"""Rows of 16 bits: how they are rounded, and that all else is as with rows of float32 that hold the rounded values."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from greedy_core import (
    Bundle,
    Calibration,
    CorruptModelError,
    Eligible,
    ExactIndex,
    GreedyIndex,
    InvalidEmbeddingsError,
    build_bundle,
    calibrate,
    reference,
)
from greedy_core._kernel import instruction_set, instruction_sets, use_instruction_set
from greedy_core.precision import PRECISIONS, narrow, rounded, widen

NARROW = ["float16", "bfloat16"]
AVAILABLE = [name for name, supported in instruction_sets().items() if supported]


def vectors(n, n_dims, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n_dims)).astype(np.float32)


def rounded_slowly(value, precision):
    """Round one value in plain Python: float16 by the struct module, bfloat16 by the nearest of two multiples."""
    if precision == "float16":
        return struct.unpack("e", struct.pack("e", value))[0]
    if value == 0:
        return value
    # A float32 has 24 significant bits, or fewer where it has no leading one; a bfloat16 has 16 less.
    step = 2.0 ** (max(np.frexp(np.float32(value))[1], -125) - 8)
    # round() takes the even one of two that are as near.
    return round(float(value) / step) * step


@pytest.fixture(autouse=True)
def restore_instruction_set():
    before = instruction_set()
    yield
    use_instruction_set(before)


class TestRounding:
    def test_known_values(self):
        given = np.array([[0.0, 1.0, -1.5, 1 / 3, 65504.0, 1e-8, 2.0**-24, 1 + 2**-11]], dtype=np.float32)
        half = [0.0, 1.0, -1.5, 0.333251953125, 65504.0, 0.0, 2.0**-24, 1.0]
        assert rounded(given, "float16").tolist() == [half]
        brain = [0.0, 1.0, -1.5, 0.333984375, 65536.0, 1.0011717677116394e-08, 2.0**-24, 1.0]
        assert rounded(given, "bfloat16").tolist() == [brain]
        assert rounded(given, "float32") is given

    @pytest.mark.parametrize("precision", NARROW)
    @given(values=hnp.arrays(np.float32, (2, 5), elements=st.floats(-60000, 60000, width=32)))
    def test_to_the_nearest(self, precision, values):
        expected = [[rounded_slowly(float(value), precision) for value in row] for row in values]
        found = rounded(values, precision)
        assert found.dtype == np.float32
        assert found.tolist() == expected
        # What is rounded once stays as it is.
        assert rounded(found, precision).tobytes() == found.tobytes()

    @pytest.mark.parametrize("precision", PRECISIONS)
    def test_stored_on_cache_lines_and_widened_without_a_loss(self, precision):
        stored = narrow(vectors(40, 32), precision)
        assert stored.itemsize == (4 if precision == "float32" else 2)
        if precision != "float32":
            assert stored.ctypes.data % 64 == 0
        assert narrow(widen(stored), precision).tobytes() == stored.tobytes()

    @pytest.mark.parametrize("build", [ExactIndex.build, GreedyIndex.build])
    def test_what_float16_cannot_hold_is_refused(self, build):
        items = vectors(20_000, 4)
        items[17_000, 2] = -70_000
        words = r"row 17000 of items holds -70000.0 in dimension 2, but float16 goes up to 65504; take bfloat16"
        with pytest.raises(InvalidEmbeddingsError, match=words):
            build(items, precision="float16")
        assert build(items, precision="bfloat16").items[17_000, 2] == -70_144

    @pytest.mark.parametrize("build", [ExactIndex.build, GreedyIndex.build])
    def test_an_unknown_precision_is_refused(self, build):
        with pytest.raises(
            InvalidEmbeddingsError, match="there are no rows of 'float8'; choose one of float32, float16"
        ):
            build(vectors(5, 4), precision="float8")


class TestScores:
    @pytest.mark.parametrize("precision", NARROW)
    @settings(max_examples=60)
    @given(st.data())
    def test_the_same_bits_on_every_instruction_set_and_as_with_float32(self, precision, data):
        n_dims = data.draw(st.integers(1, 70))
        values = st.floats(-60000, 60000, width=32) | st.floats(-(2.0**-14), 2.0**-14, width=32)
        items = data.draw(hnp.arrays(np.float32, (3, n_dims), elements=values))
        query = data.draw(hnp.arrays(np.float32, n_dims, elements=values))
        use_instruction_set("plain")
        expected = ExactIndex.build(rounded(items, precision)).search(query)
        for name in AVAILABLE:
            use_instruction_set(name)
            found = ExactIndex.build(items, precision).search(query)
            assert found.ids.tolist() == expected.ids.tolist(), name
            assert found.scores.tobytes() == expected.scores.tobytes(), name

    @pytest.mark.parametrize("name", AVAILABLE)
    def test_every_value_of_16_bits_is_widened_right(self, name):
        use_instruction_set(name)
        every = np.arange(2**16, dtype=np.uint16)
        for stored in (every.view(np.float16), every):
            wide = widen(stored)
            usable = np.abs(wide) <= 1e15
            items = widen(stored[usable]).reshape(-1, 1)
            precision = "float16" if stored.dtype == np.float16 else "bfloat16"
            result = ExactIndex.build(items, precision).search(np.ones(1, np.float32), top_k=len(items))
            scores = np.empty(len(items), dtype=np.float32)
            scores[result.ids] = result.scores
            np.testing.assert_array_equal(scores, items[:, 0])

    @pytest.mark.parametrize("precision", NARROW)
    @pytest.mark.parametrize("n_dims", [1, 15, 16, 17, 32, 33, 100, 128])
    def test_many_rows_in_any_order(self, precision, n_dims):
        items, query = vectors(700, n_dims), vectors(1, n_dims, 1)[0]
        eligible = Eligible.from_mask(np.random.default_rng(2).random(700) < 0.5)
        wide, narrowed = ExactIndex.build(rounded(items, precision)), ExactIndex.build(items, precision)
        for only in (None, eligible):
            expected = wide.search(query, 700, eligible=only)
            found = narrowed.search(query, 700, eligible=only)
            assert found.ids.tolist() == expected.ids.tolist()
            assert found.scores.tobytes() == expected.scores.tobytes()


class TestIndex:
    @pytest.mark.parametrize("precision", NARROW)
    @pytest.mark.parametrize("directions", ["axes", "principal", "sparse", "graph"])
    def test_as_an_index_over_the_rounded_rows(self, precision, directions):
        items, users = vectors(600, 24), vectors(200, 24, 1)
        index = GreedyIndex.build(items, users, directions, max_budget=200, precision=precision)
        wide = GreedyIndex.build(rounded(items, precision), users, directions, max_budget=200)
        assert (index.precision, wide.precision) == (precision, "float32")
        assert index.items.tobytes() == np.ascontiguousarray(wide.items).tobytes()
        eligible = Eligible.from_mask(np.arange(600) % 3 > 0)
        for budget in (1, 7, 64, 200, 600):
            for only in (None, eligible):
                for query in users[:10]:
                    found = index.search(query, 10, budget, exclude=[3, 4], eligible=only)
                    expected = wide.search(query, 10, budget, exclude=[3, 4], eligible=only)
                    assert found.spent == expected.spent <= budget
                    assert (found.complete, found.ids.tolist()) == (expected.complete, expected.ids.tolist())
                    assert found.scores.tobytes() == expected.scores.tobytes()

    @pytest.mark.parametrize("precision", NARROW)
    @settings(max_examples=40)
    @given(st.data())
    def test_the_reference_finds_the_same(self, precision, data):
        n_items, n_dims = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 20))
        # Whole numbers, of which both precisions round some, and products without any rounding.
        items = data.draw(hnp.arrays(np.int32, (n_items, n_dims), elements=st.integers(-4000, 4000))).astype(np.float32)
        query = data.draw(hnp.arrays(np.int32, n_dims, elements=st.integers(-3, 3))).astype(np.float32)
        budget = data.draw(st.integers(1, n_items))
        found = GreedyIndex.build(items, precision=precision).search(query, n_items, budget)
        expected = reference.search(rounded(items, precision), query, n_items, budget)
        assert found.spent == expected.spent <= budget
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.scores.tolist() == expected.scores.tolist()

    @pytest.mark.parametrize("index", [ExactIndex, GreedyIndex])
    @pytest.mark.parametrize("precision", PRECISIONS)
    def test_saved_and_loaded(self, tmp_path, index, precision):
        built = index.build(vectors(100, 20), precision=precision)
        built.save(tmp_path / "index")
        loaded = index.load(tmp_path / "index")
        assert loaded.precision == precision
        query = vectors(1, 20, 3)[0]
        assert loaded.search(query, budget=100).scores.tobytes() == built.search(query, budget=100).scores.tobytes()

    @pytest.mark.parametrize("said", ["float32", "bfloat16", "float8", None, 16])
    def test_a_file_of_another_precision_than_it_says_is_refused(self, said):
        arrays, info = GreedyIndex.build(vectors(50, 8), precision="float16").to_arrays()
        with pytest.raises(CorruptModelError, match="write the model again"):
            GreedyIndex.from_arrays(arrays, info | {"precision": said})

    def test_an_index_of_an_earlier_release_names_none(self):
        arrays, info = GreedyIndex.build(vectors(50, 8)).to_arrays()
        assert info.pop("precision") == "float32"
        assert GreedyIndex.from_arrays(arrays, info).precision == "float32"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_calibration_compares_with_the_vectors_that_were_given(precision):
    rng = np.random.default_rng(5)
    # So alike that rounding changes their order.
    items = (1 + rng.normal(size=(400, 8)) / 64).astype(np.float32)
    users = rng.normal(size=(70, 8)).astype(np.float32)
    exact = ExactIndex.build(items)
    index = GreedyIndex.build(items, precision=precision)
    measured = calibrate(index, users, exact=exact)
    true, found = (
        np.argsort(-(users.astype(np.float64) @ vectors.T.astype(np.float64)), axis=1)[:, :10]
        for vectors in (items, rounded(items, precision))
    )
    expected = np.mean([len(np.intersect1d(*pair)) / 10 for pair in zip(true, found, strict=True)])
    assert measured.rows_recall == pytest.approx(expected, abs=1e-3)
    assert {"float32": expected == 1.0, "float16": 0.95 < expected < 1.0, "bfloat16": 0.2 < expected < 0.9}[precision]
    # All products find no more than that; under filters neither.
    assert measured.for_vectors.points[-1].recall_at_10 <= measured.rows_recall + 0.02
    assert (measured.filtered[0].recalls[-1] == 1.0) == (precision == "float32")
    assert Calibration.from_dict(measured.to_dict()) == measured


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """The same model in every precision."""
    rng = np.random.default_rng(8)
    topics = rng.normal(size=(12, 24))
    items = (rng.dirichlet([0.2] * 12, 600) @ topics).astype(np.float32)
    users = (rng.dirichlet([0.2] * 12, 300) @ topics).astype(np.float32)
    place = tmp_path_factory.mktemp("precisions")
    for precision in PRECISIONS:
        build_bundle(
            place / precision, items=items, users=users, directions="principal", max_budget=64, precision=precision
        )
    return {precision: Bundle.open(place / precision) for precision in PRECISIONS}


class TestBundle:
    def test_half_the_bytes(self, bundles):
        sizes = {
            precision: sum(file.stat().st_size for file in bundle.path.glob("*.rows.npy"))
            for precision, bundle in bundles.items()
        }
        # Two files of 600 rows of 32 values: of the items, and of the items at unit length.
        assert sizes == {"float32": 2 * (76_800 + 128), "float16": 2 * (38_400 + 128), "bfloat16": 2 * (38_400 + 128)}

    @pytest.mark.parametrize("precision", PRECISIONS)
    def test_sound(self, bundles, precision):
        bundle = bundles[precision]
        bundle.verify()
        assert bundle.index.precision == bundle.similar.index.precision == precision

    @pytest.mark.parametrize("precision", NARROW)
    def test_vectors_of_items_are_those_of_the_rounded_rows(self, bundles, precision):
        bundle = bundles[precision]
        items = bundle.index.items
        assert bundle.mean_of_items([7]).tobytes() == items[7].tobytes()
        expected = items[[3, 7, 500]].astype(np.float64).mean(axis=0)
        np.testing.assert_allclose(bundle.vector_of_items([500, 7, 3]).vector, expected, rtol=1e-6, atol=1e-7)
        similar = bundle.similar
        assert similar.query([7]).vector.tobytes() == similar.index.items[7].tobytes()
        found = similar.index.search(similar.query([7]).vector, 5, similar.index.n_items, exclude=[7])
        unit = items / np.linalg.norm(items, axis=1, keepdims=True)
        cosines = unit @ unit[7]
        np.testing.assert_allclose(found.scores, cosines[found.ids], atol=0.02)

    def test_unit_vectors_share_one_index_in_every_precision(self, tmp_path):
        items = vectors(300, 16)
        items /= np.linalg.norm(items, axis=1, keepdims=True)
        for precision in PRECISIONS:
            bundle = build_bundle(tmp_path / precision, items=items, directions="axes", precision=precision)
            assert bundle.similar.shared, precision
            bundle.verify()
