"""Made-up models for the load tests: users 1 to 1000, two versions that differ a little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from greedy_core import VersionsFolder, build_bundle

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = "first", "second"
N_USERS = 1000
N_TOPICS = 40


def make_models(folder: Path, *, n_items: int = 20_000, n_dims: int = 64) -> Path:
    """Make a models folder with the versions FIRST, which is current, and SECOND; takes some seconds."""
    rng = np.random.default_rng(7)
    # Items belong to a topic and users love two of them: without any structure no search could be good.
    topics = np.linalg.qr(rng.standard_normal((n_dims, N_TOPICS)))[0].T * np.linspace(1.3, 0.8, N_TOPICS)[:, None]
    quality = rng.uniform(0.4, 1.6, (n_items, 1))
    items = quality * (topics[rng.integers(N_TOPICS, size=n_items)] + 0.25 * noise(rng, n_items, n_dims))
    first, second = rng.integers(N_TOPICS, size=(2, N_USERS))
    users = topics[first] + 0.8 * topics[second] + 0.2 * noise(rng, N_USERS, n_dims)
    folder.mkdir(parents=True)
    for version in (FIRST, SECOND):
        drift = 0.05 * noise(rng, n_items, n_dims) * (version == SECOND)
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


def noise(rng: np.random.Generator, count: int, n_dims: int) -> np.ndarray:
    """Return random vectors of about unit length."""
    return rng.standard_normal((count, n_dims)) / np.sqrt(n_dims)
