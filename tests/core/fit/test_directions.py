"""What LAPACK gives up on is decomposed the other way round."""

import numpy as np
import pytest

from greedy_core.fit.directions import _nearest_rotation


@pytest.mark.parametrize("gives_up", [False, True])
def test_the_nearest_rotation(monkeypatch, gives_up):
    matrix = np.random.default_rng(4).normal(size=(7, 7))
    left, _, right = np.linalg.svd(matrix)
    svd = np.linalg.svd

    def at_second(given):
        if given is matrix:
            raise np.linalg.LinAlgError("SVD did not converge")
        return svd(given)

    if gives_up:
        monkeypatch.setattr(np.linalg, "svd", at_second)
    rotation = _nearest_rotation(matrix)
    assert np.allclose(rotation, left @ right)
    assert np.allclose(rotation @ rotation.T, np.eye(7))
