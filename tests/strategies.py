"""Hypothesis strategies: small problems with everything in them that breaks searches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

# Few distinct values make ties, zeros and duplicate rows; the rest are ordinary floats of any size.
COARSE = st.sampled_from([-2.0, -1.0, -0.5, 0.0, -0.0, 0.5, 1.0, 2.0])
FINE = st.floats(-1e3, 1e3, width=32)
TINY = st.floats(-(2.0**-100), 2.0**-100, width=32)


class Problem(NamedTuple):
    """Items, a query, a budget from 1 to beyond n, and items to exclude."""

    items: np.ndarray
    query: np.ndarray
    budget: int
    exclude: list[int]


@st.composite
def problems(draw, max_items=40, max_dims=12):
    """One problem; sizes down to one item and one dimension."""
    n_items, n_dims = draw(st.integers(1, max_items)), draw(st.integers(1, max_dims))
    elements = draw(st.sampled_from([COARSE, FINE, COARSE | FINE, TINY]))
    items = draw(hnp.arrays(np.float32, (n_items, n_dims), elements=elements))
    query = draw(hnp.arrays(np.float32, n_dims, elements=elements))
    budget = draw(st.integers(1, n_items + 2))
    exclude = draw(st.lists(st.integers(0, n_items - 1), max_size=n_items))
    return Problem(items, query, budget, exclude)
