"""Any number of threads may search one index at once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from greedy_core import GreedyIndex
from greedy_core.fit.directions import KINDS
from greedy_core.screening import VARIANTS


@pytest.mark.parametrize("directions", KINDS)
def test_threads_hammering_one_index_get_the_answers_of_one_thread(directions):
    rng = np.random.default_rng(1)
    index = GreedyIndex.build(rng.normal(size=(3000, 16)), directions=directions, max_budget=512)
    queries = rng.normal(size=(200, 16)).astype(np.float32)
    ways = VARIANTS if index.has_graph else VARIANTS[:-1]
    # Budgets, variants and exclusions change from call to call, so that every piece of scratch is reused differently.
    calls = [
        (query, int(rng.integers(1, 512)), ways[i % len(ways)], rng.integers(0, 3000, size=i % 50))
        for i, query in enumerate(queries)
    ]

    def ask(call):
        query, budget, variant, exclude = call
        result = index.search(query, budget=budget, variant=variant, exclude=exclude)
        return result.ids.tolist(), result.scores.tobytes(), result.spent

    expected = [ask(call) for call in calls]
    with ThreadPoolExecutor(8) as pool:
        for answers in pool.map(lambda _: [ask(call) for call in calls], range(24)):
            assert answers == expected
