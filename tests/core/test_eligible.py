"""Eligible: bits, counts and positions say the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from greedy_core import Eligible, InvalidQueryError


def test_the_layout_is_bit_j_of_word_j_over_64():
    mask = np.zeros(130, dtype=bool)
    mask[[0, 5, 63, 64, 129]] = True
    eligible = Eligible.from_mask(mask)
    assert eligible.words.tolist() == [1 | 1 << 5 | 1 << 63, 1, 1 << 1]
    assert (eligible.count, len(eligible), eligible.n_items) == (5, 5, 130)
    assert eligible.positions.tolist() == [0, 5, 63, 64, 129]
    assert 63 in eligible
    assert np.int32(129) in eligible
    assert 1 not in eligible
    assert 130 not in eligible
    assert -1 not in eligible
    assert "63" not in eligible
    assert repr(eligible) == "Eligible(5 of 130 items)"


@given(hnp.arrays(np.bool_, st.integers(1, 300)) | st.integers(1, 5000).map(lambda n: np.arange(n) % 17 == 3))
def test_all_forms_have_the_same_items(mask):
    eligible = Eligible.from_mask(mask)
    assert (eligible.mask() == mask).all()
    assert eligible.count == mask.sum()
    assert eligible.selectivity == mask.mean()
    listed = np.flatnonzero(mask)
    assert (eligible.positions is None) == (16 * len(listed) > len(mask))
    if eligible.positions is not None:
        assert eligible.positions.tolist() == listed.tolist()
        assert eligible.positions.dtype == np.int32
    assert eligible == Eligible.from_positions(np.tile(listed[::-1], 2), len(mask))
    assert eligible == Eligible(eligible.words, len(mask))
    assert eligible != Eligible.from_mask(~mask)
    assert eligible != mask.tolist()


def test_words_are_not_copied_and_cannot_be_changed():
    words = np.array([7], dtype=np.uint64)
    eligible = Eligible(words, 64)
    assert np.shares_memory(eligible.words, words)
    with pytest.raises(ValueError, match="read-only"):
        eligible.words[0] = 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Eligible(np.zeros(1, np.uint64), 65), "the bits of 65 items are 2 contiguous words"),
        (lambda: Eligible(np.zeros(1, np.int64), 64), "uint64, but these are int64"),
        (lambda: Eligible(np.zeros(4, np.uint64)[::2], 128), "contiguous"),
        (lambda: Eligible(np.array([8], np.uint64), 3), "a bit behind them is set"),
        (lambda: Eligible.from_mask([1, 0]), "flat array of bool"),
        (lambda: Eligible.from_mask(np.zeros(0, bool)), "flat array of bool"),
        (lambda: Eligible.from_positions([3], 3), "eligible names item 3, but items are numbered from 0 to 2"),
    ],
)
def test_what_is_no_set_of_items_is_refused(make, message):
    with pytest.raises(InvalidQueryError, match=message):
        make()
