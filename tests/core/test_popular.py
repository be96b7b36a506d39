"""The popular items that are left when some are excluded and only some are eligible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greedy_core import most_popular, popular

POPULAR = np.random.default_rng(2).permutation(300).astype(np.int32)


@given(
    top_k=st.integers(1, 400),
    excluded=st.none() | st.lists(st.integers(0, 299), max_size=300),
    few=st.sampled_from([0, 5, 1000]),
)
def test_the_first_that_are_not_excluded(top_k, excluded, few):
    positions = None if excluded is None else np.array(excluded, dtype=np.int32)
    with pytest.MonkeyPatch.context() as patch:
        # Few are looked up one by one, many together.
        patch.setattr(popular, "_FEW", few)
        found = most_popular(POPULAR, top_k, positions)
    assert found.dtype == np.int32
    assert found.tolist() == [j for j in POPULAR.tolist() if j not in set(excluded or ())][:top_k]
