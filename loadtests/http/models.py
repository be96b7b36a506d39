"""Made-up models for the load tests: users 1 to 1000, two versions that differ a little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from greedy_core.versions import VersionsFolder
from service.building import build_bundle

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = "first", "second"
N_USERS = 1000


def make_models(folder: Path, *, n_items: int = 20_000, n_dims: int = 64) -> Path:
    """Make a models folder with the versions FIRST, which is current, and SECOND; takes some seconds."""
    rng = np.random.default_rng(7)
    # Few strong dimensions and many weak ones, as factorised ratings have them.
    weights = np.geomspace(1.0, 0.2, n_dims)
    items = rng.standard_normal((n_items, n_dims)) * weights
    users = rng.standard_normal((N_USERS, n_dims)) * weights
    folder.mkdir(parents=True)
    for version in (FIRST, SECOND):
        drift = rng.standard_normal((n_items, n_dims)) * 0.05 * (version == SECOND)
        build_bundle(
            folder / version,
            items=(items + drift).astype(np.float32),
            users=users.astype(np.float32),
            user_ids=range(1, N_USERS + 1),
            version=version,
            calibrated=False,
        )
    VersionsFolder(folder).promote(FIRST)
    return folder
