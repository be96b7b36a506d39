"""Comparisons that forgive what rounding explains, and nothing else."""

from __future__ import annotations

import numpy as np


def assert_valid_receipt(result, *, n_items, top_k, budget, exclude=(), walked=False):
    """What every result of every index satisfies. A walk spends a part of its budget on finding its way."""
    eligible = n_items - len(set(exclude))
    assert result.spent <= budget
    assert result.spent <= eligible
    assert result.complete == (result.spent == eligible)
    most = min(top_k, result.spent)
    assert min(most, 1) <= len(result.ids) == len(result.scores) <= most
    assert walked or len(result.ids) == most
    assert len(set(result.ids.tolist())) == len(result.ids)
    assert not set(result.ids.tolist()) & set(exclude)
    in_order = list(zip(-result.scores, result.ids, strict=True))
    assert in_order == sorted(in_order)


def assert_same_ranking(result, expected, items, query):
    """The same scores up to rounding; where ids differ, their true scores must be indistinguishable in float32."""
    scale = np.abs(items.astype(np.float64)) @ np.abs(query.astype(np.float64))
    tolerance = 1e-6 * scale.max(initial=0) + 1e-37
    assert len(result.ids) == len(expected.ids)
    np.testing.assert_allclose(result.scores, expected.scores, rtol=0, atol=tolerance)
    truth = items.astype(np.float64) @ query.astype(np.float64)
    swapped = result.ids != expected.ids
    np.testing.assert_allclose(truth[result.ids[swapped]], truth[expected.ids[swapped]], rtol=0, atol=tolerance)
