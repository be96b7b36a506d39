"""A vector made of items that somebody met: what the training would have given, or the mean."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix, random
from threadpoolctl import threadpool_limits

from greedy_core import Bundle, FoldIn, GreedyIndex, write_bundle
from greedy_core.bundle import storage
from greedy_core.errors import CorruptModelError, InvalidEmbeddingsError, InvalidQueryError
from greedy_core.fold_in import FoldInSystem, ItemsMet, make_vector

N_ITEMS, N_DIMS = 200, 24
ITEMS = np.random.default_rng(3).standard_normal((N_ITEMS, N_DIMS)).astype(np.float32)
SYSTEM = FoldInSystem.of(FoldIn(regularization=0.5, alpha=4.0), ITEMS)


def slow_fold_in(items, regularization, alpha, positions, weights, prior=None):
    """The normal equations as they stand in the text, solved by NumPy."""
    h = items.astype(np.float64)
    u, c = h[positions], alpha * np.asarray(weights, dtype=np.float64)
    gram = h.T @ h + regularization * np.eye(h.shape[1])
    left = gram + (u * (c - 1)[:, None]).T @ u
    right = u.T @ c if prior is None else u.T @ c + gram @ prior
    return np.linalg.solve(left, right)


def bundle_of(path, items=ITEMS, fold_in=None):
    return write_bundle(path, index=GreedyIndex.build(items, max_budget=16), fold_in=fold_in)


# Few items go one way and many another: lists on both sides of the border, which lies at 9 of 24 dimensions.
met = st.lists(
    st.tuples(st.integers(0, N_ITEMS - 1), st.floats(0.05, 20.0)),
    min_size=1,
    max_size=40,
    unique_by=lambda pair: pair[0],
)


class TestFoldIn:
    @given(met)
    @settings(max_examples=150, deadline=None)
    def test_solves_the_equations(self, pairs):
        positions, weights = map(list, zip(*pairs, strict=True))
        made = make_vector(ITEMS, SYSTEM, ItemsMet.of(positions, weights, N_ITEMS))
        assert made.made == "fold_in"
        np.testing.assert_allclose(made.vector, slow_fold_in(ITEMS, 0.5, 4.0, positions, weights), rtol=1e-4, atol=1e-6)

    @given(met, st.integers(0, 10))
    @settings(max_examples=100, deadline=None)
    def test_moves_a_vector(self, pairs, seed):
        positions, weights = map(list, zip(*pairs, strict=True))
        prior = np.random.default_rng(seed).standard_normal(N_DIMS).astype(np.float32)
        made = make_vector(ITEMS, SYSTEM, ItemsMet.of(positions, weights, N_ITEMS), prior)
        assert made.made == "moved"
        slow = slow_fold_in(ITEMS, 0.5, 4.0, positions, weights, prior.astype(np.float64))
        np.testing.assert_allclose(made.vector, slow, rtol=1e-4, atol=1e-5)

    @given(met, st.randoms(use_true_random=False), st.booleans())
    @settings(max_examples=100, deadline=None)
    def test_the_order_means_nothing(self, pairs, drawn, folded):
        shuffled = list(pairs)
        drawn.shuffle(shuffled)
        system = SYSTEM if folded else None
        vectors = [
            make_vector(ITEMS, system, ItemsMet.of(*map(list, zip(*some, strict=True)), N_ITEMS)).vector
            for some in (pairs, shuffled)
        ]
        assert vectors[0].tobytes() == vectors[1].tobytes()

    def test_an_item_met_twice_weighs_as_much_as_both(self):
        twice = ItemsMet.of([7, 3, 7], [1.0, 2.0, 0.5], N_ITEMS)
        assert twice.positions.tolist() == [3, 7]
        assert twice.weights.tolist() == [2.0, 1.5]

    @pytest.mark.parametrize(("n_dims", "alpha"), [(8, 1.0), (32, 40.0), (33, 0.3)])
    def test_what_implicit_says(self, n_dims, alpha):
        history = random(300, 150, density=0.05, random_state=1, format="csr", dtype=np.float32)
        history.data = 1 + np.floor(history.data * 5)
        with threadpool_limits(1, "blas"):
            model = AlternatingLeastSquares(
                n_dims, regularization=0.05, alpha=alpha, iterations=6, random_state=2, num_threads=1
            )
            model.fit(history, show_progress=False)
            system = FoldInSystem.of(FoldIn(0.05, alpha), model.item_factors)
            rng = np.random.default_rng(5)
            for count in (1, 3, 12, 30, 100):
                positions = rng.permutation(150)[:count]
                weights = rng.integers(1, 6, count)
                row = csr_matrix((weights.astype(np.float32), (np.zeros(count, int), positions)), shape=(1, 150))
                expected = model.recalculate_user(0, row)
                made = make_vector(model.item_factors, system, ItemsMet.of(positions, weights, 150))
                np.testing.assert_allclose(made.vector, expected, atol=1e-4, rtol=1e-4)

    def test_too_little_regularization_is_refused(self):
        with pytest.raises(InvalidEmbeddingsError, match=r"leave a fold-in open; give a larger one"):
            FoldInSystem.of(FoldIn(0.0, 1.0), ITEMS[:5])

    @pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, 1e10, "1", None, True])
    def test_parameters_that_make_no_sense(self, value):
        with pytest.raises(InvalidEmbeddingsError, match="the regularization of a fold-in must be a number from 0"):
            FoldIn(regularization=value, alpha=1.0)
        with pytest.raises(InvalidEmbeddingsError, match="the alpha of a fold-in must be a number above 0"):
            FoldIn(regularization=1.0, alpha=value)

    def test_alpha_is_above_zero(self):
        with pytest.raises(InvalidEmbeddingsError, match="the alpha"):
            FoldIn(regularization=1.0, alpha=0)


class TestMean:
    def test_weighs(self):
        made = make_vector(ITEMS, None, ItemsMet.of([4, 1], [3.0, 1.0], N_ITEMS))
        assert made.made == "mean"
        np.testing.assert_allclose(made.vector, (3 * ITEMS[4] + ITEMS[1]) / 4, rtol=1e-6)

    def test_padded_rows(self):
        index = GreedyIndex.build(ITEMS, max_budget=4)
        assert index.items.strides[0] > 4 * N_DIMS
        made = make_vector(index.items, None, ItemsMet.of([4], None, N_ITEMS))
        assert made.vector.tolist() == ITEMS[4].tolist()

    def test_a_vector_moves_at_its_length(self):
        prior = np.array([3.0, 4.0], dtype=np.float32)
        items = np.array([[0.0, 1.0], [1.0, 0.0]], dtype=np.float32)
        made = make_vector(items, None, ItemsMet.of([0], None, 2), prior)
        assert made.made == "moved"
        np.testing.assert_allclose(made.vector, [0.8 * 3, 0.8 * 4 + 0.2 * 5], rtol=1e-6)

    @pytest.mark.parametrize(("prior", "mean", "expected"), [([0, 0], [1, 2], [1, 2]), ([1, 2], [0, 0], [1, 2])])
    def test_nothing_to_stretch(self, prior, mean, expected):
        items = np.array([mean], dtype=np.float32)
        made = make_vector(items, None, ItemsMet.of([0], None, 1), np.array(prior, dtype=np.float32))
        assert made.vector.tolist() == expected


class TestItemsMet:
    @pytest.mark.parametrize("weight", [0, -1.0, math.nan, math.inf, -math.inf, 2e6])
    def test_weights_that_make_no_sense(self, weight):
        with pytest.raises(InvalidQueryError, match=r"a weight must be a number above 0 and up to 1e\+06, but one is"):
            ItemsMet.of([1, 2], [1.0, weight], N_ITEMS)

    @pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, 3.0], ["a", "b"], [[1.0, 2.0]], [True, False]])
    def test_one_weight_for_each(self, weights):
        with pytest.raises(InvalidQueryError, match="weights must be 2 numbers, one for each item"):
            ItemsMet.of([1, 2], weights, N_ITEMS)

    @pytest.mark.parametrize("positions", [[], [[1]], 3, ["a"], [1.5]])
    def test_positions_of_another_kind(self, positions):
        with pytest.raises(InvalidQueryError, match="items must be a flat list of at least one position"):
            ItemsMet.of(positions, None, N_ITEMS)

    @pytest.mark.parametrize("position", [-1, N_ITEMS])
    def test_positions_out_of_range(self, position):
        with pytest.raises(InvalidQueryError, match="positions of items go from 0 to 199"):
            ItemsMet.of([0, position], None, N_ITEMS)


class TestBundle:
    def test_keeps_what_a_fold_in_needs(self, tmp_path):
        parameters = FoldIn(regularization=0.5, alpha=4.0)
        bundle = bundle_of(tmp_path / "als", fold_in=parameters)
        bundle.verify()
        assert bundle.fold_in == parameters
        made = bundle.vector_of_items([9, 2], [1.0, 2.0])
        assert made.made == "fold_in"
        np.testing.assert_allclose(made.vector, slow_fold_in(ITEMS, 0.5, 4.0, [9, 2], [1, 2]), rtol=1e-4, atol=1e-6)

    def test_the_mean_without(self, tmp_path):
        bundle = bundle_of(tmp_path / "any")
        assert bundle.fold_in is None
        assert bundle.vector_of_items([9]).vector.tolist() == ITEMS[9].tolist()

    def test_a_model_that_cannot_fold_in_is_not_written(self, tmp_path):
        with pytest.raises(InvalidEmbeddingsError, match="leave a fold-in open"):
            bundle_of(tmp_path / "few", ITEMS[:5], FoldIn(0.0, 1.0))
        assert not (tmp_path / "few").exists()

    @pytest.mark.parametrize("damage", ["parameters", "shape", "missing", "nonsense"])
    def test_damage_is_refused(self, tmp_path, damage):
        bundle_of(tmp_path / "whole", fold_in=FoldIn(0.5, 4.0))
        stored = storage.open_arrays(tmp_path / "whole", kind="bundle")
        arrays, info = dict(stored.arrays), dict(stored.info)
        if damage == "parameters":
            info["fold_in"] = None
        elif damage == "shape":
            arrays["fold_in.gram"] = arrays["fold_in.gram"][:3]
        elif damage == "missing":
            del arrays["fold_in.inverse"]
            info["arrays"] = sorted(arrays)
        else:
            info["fold_in"] = {"regularization": -1.0, "alpha": 1.0}
        storage.write_arrays(tmp_path / "damaged", kind="bundle", arrays=arrays, info=info)
        with pytest.raises(CorruptModelError, match=r"fold.in"):
            Bundle.open(tmp_path / "damaged")

    def test_matrices_of_another_model_are_found_by_verify(self, tmp_path):
        bundle_of(tmp_path / "whole", fold_in=FoldIn(0.5, 4.0))
        stored = storage.open_arrays(tmp_path / "whole", kind="bundle")
        arrays = dict(stored.arrays) | {"fold_in.inverse": np.eye(N_DIMS)}
        storage.write_arrays(tmp_path / "damaged", kind="bundle", arrays=arrays, info=stored.info)
        with pytest.raises(CorruptModelError, match="do not fit to each other"):
            Bundle.open(tmp_path / "damaged").verify()
