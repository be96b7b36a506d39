"""The inner-product kernels: each instruction set, the same bits."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from greedy_core import ExactIndex, GreedyIndex, UnsupportedKernelError
from greedy_core._kernel import instruction_set, instruction_sets, use_instruction_set

AVAILABLE = [name for name, supported in instruction_sets().items() if supported]
MISSING = [name for name, supported in instruction_sets().items() if not supported]


@pytest.fixture(autouse=True)
def restore_instruction_set():
    before = instruction_set()
    yield
    use_instruction_set(before)


def scores_with(name, items, query):
    use_instruction_set(name)
    assert instruction_set() == name
    result = ExactIndex.build(items).search(query, top_k=len(items))
    return result.scores[np.argsort(result.ids)]


def test_plain_is_always_there_and_the_best_is_the_default():
    assert AVAILABLE[-1] == "plain"
    assert instruction_set() == os.environ.get("GREEDY_CORE_KERNEL", AVAILABLE[0])


@pytest.mark.parametrize("name", AVAILABLE)
@pytest.mark.parametrize("n_dims", [1, 3, 8, 15, 16, 17, 31, 32, 33, 64, 100, 128, 200, 1024])
def test_scores_are_inner_products(name, n_dims):
    rng = np.random.default_rng(n_dims)
    items, query = rng.normal(size=(50, n_dims)).astype(np.float32), rng.normal(size=n_dims).astype(np.float32)
    expected = items.astype(np.float64) @ query.astype(np.float64)
    tolerance = 1e-6 * (np.abs(items) @ np.abs(query)).max()
    np.testing.assert_allclose(scores_with(name, items, query), expected, rtol=0, atol=tolerance)


@given(st.data())
def test_every_instruction_set_gives_the_same_bits(data):
    n_dims = data.draw(st.integers(1, 70))
    # All magnitudes at once: cancellation and rounding in every place of the sum.
    values = st.floats(-(2.0**49), 2.0**49, width=32)
    items = data.draw(hnp.arrays(np.float32, (3, n_dims), elements=values))
    query = data.draw(hnp.arrays(np.float32, n_dims, elements=values))
    expected = scores_with("plain", items, query)
    for name in AVAILABLE:
        assert scores_with(name, items, query).tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("directions", ["principal", "graph"])
@pytest.mark.parametrize("n_dims", [50, 64, 200])
@pytest.mark.parametrize("name", AVAILABLE)
def test_searches_are_the_same_on_every_instruction_set(name, n_dims, directions):
    rng = np.random.default_rng(11)
    items, queries = (
        rng.normal(size=(2000, n_dims)).astype(np.float32),
        rng.normal(size=(20, n_dims)).astype(np.float32),
    )
    use_instruction_set("plain")
    index = GreedyIndex.build(items, directions=directions)
    expected = index.search_batch(queries, budget=100)
    use_instruction_set(name)
    for result, plain in zip(index.search_batch(queries, budget=100), expected, strict=True):
        assert result.ids.tolist() == plain.ids.tolist()
        assert result.scores.tobytes() == plain.scores.tobytes()


def imported_with(kernel):
    script = "import greedy_core, greedy_core._kernel as k; print(k.instruction_set())"
    environment = {**os.environ, "GREEDY_CORE_KERNEL": kernel}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", AVAILABLE)
def test_the_environment_forces_an_instruction_set(name):
    assert imported_with(name).stdout.strip() == name


def test_an_unknown_instruction_set_is_refused_with_the_choices():
    run = imported_with("sse9")
    assert run.returncode != 0
    assert "there is no instruction set called 'sse9'; this CPU runs" in run.stderr


@pytest.mark.parametrize("name", MISSING)
def test_an_instruction_set_that_the_cpu_lacks_is_refused(name):
    with pytest.raises(UnsupportedKernelError, match=f"this CPU does not have {name}; it runs"):
        use_instruction_set(name)
    assert name not in imported_with(name).stdout
