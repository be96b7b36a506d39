"""Building lists: the largest entries of each column, in order, however they are found."""

import numpy as np
import pytest

from greedy_core._kernel import build_lists


def columns_of_many_items(n_items):
    """Columns long enough that lists are cut by a sampled bound, some of which mislead the sample."""
    rng = np.random.default_rng(3)
    sampled = np.arange(8192) * n_items // 8192
    only_where_sampled = np.zeros(n_items)
    only_where_sampled[sampled[:150]] = 1
    hidden = rng.normal(size=n_items)
    hidden[sampled] = -9
    return np.stack(
        [
            rng.normal(size=n_items),
            rng.integers(-3, 4, n_items),
            np.arange(n_items) - n_items / 2,
            np.zeros(n_items),
            only_where_sampled,
            hidden,
        ]
    ).astype(np.float32)


@pytest.mark.parametrize("depth", [1, 40, 200, 5_000, 39_999, 40_000])
def test_lists_of_many_items_are_the_sorted_columns(depth):
    columns = columns_of_many_items(40_000)
    ids = np.empty((2 * len(columns), depth), dtype=np.int32)
    values = np.empty_like(ids, dtype=np.float32)
    build_lists(columns, depth, ids, values)
    for t, column in enumerate(columns):
        for side, sign in enumerate((1, -1)):
            expected = np.lexsort((np.arange(len(column)), -sign * column))[:depth]
            np.testing.assert_array_equal(ids[2 * t + side], expected)
            np.testing.assert_array_equal(values[2 * t + side], sign * column[expected])
