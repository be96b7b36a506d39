"""Made-up models, built by the command line from vectors on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadtests.chaos.serving import succeed

if TYPE_CHECKING:
    from pathlib import Path

N_ITEMS, N_USERS, N_DIMS = 1_000, 100, 16
LARGE_ITEMS, LARGE_DIMS = 60_000, 64


def small(folder: Path, *versions: str) -> Path:
    """Make a models folder with these versions, each with answers of its own; the first is current. A second each."""
    for seed, version in enumerate(versions):
        items, users = vectors(folder.parent, seed, N_ITEMS, N_USERS, N_DIMS)
        succeed("build", "--items", items, "--users", users, "--models", folder, "--version", version)
    succeed("promote", versions[0], "--models", folder)
    return folder


def large(folder: Path) -> Path:
    """Make a models folder with one version in which a search of 40,000 products takes milliseconds."""
    items, users = vectors(folder.parent, 0, LARGE_ITEMS, N_USERS, LARGE_DIMS)
    succeed(
        *("build", "--items", items, "--users", users, "--models", folder, "--version", "large"),
        *("--directions", "axes", "--no-calibrate", "--promote"),
    )
    return folder


def vectors(directory: Path, seed: int, n_items: int, n_users: int, n_dims: int) -> tuple[Path, Path]:
    """Write items and users that share topics: without any structure no search could be good."""
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(n_dims, n_dims))
    paths = []
    for kind, count in (("items", n_items), ("users", n_users)):
        path = directory / f"{kind}-{seed}-{count}.npy"
        np.save(path, (rng.dirichlet([0.1] * n_dims, count) @ topics).astype(np.float32))
        paths.append(path)
    return paths[0], paths[1]
