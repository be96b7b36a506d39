"""Made-up models, built by the command line from vectors on disk, each once for all parts of a run."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np

from loadtests.chaos.serving import succeed

if TYPE_CHECKING:
    from pathlib import Path

    from loadtests.chaos.trial import Trial

N_ITEMS, N_USERS, N_DIMS = 1_000, 100, 16
LARGE_ITEMS, LARGE_DIMS = 60_000, 64
VERSIONS = ("v1", "v2", "v3")


def small(trial: Trial, name: str, *versions: str) -> Path:
    """Make a models folder with some of VERSIONS, each with answers of its own; the first is current."""
    folder = trial.directory / name
    for version in versions:
        shutil.copytree(_stock(trial) / version, folder / version)
    succeed("promote", versions[0], "--models", folder)
    return folder


def _stock(trial: Trial) -> Path:
    stock = trial.directory.parent / "stock"
    if not stock.exists():
        made = stock.with_name(f"stock-of-{trial.name}")
        for seed, version in enumerate(VERSIONS):
            items, users = vectors(trial.directory, seed, N_ITEMS, N_USERS, N_DIMS)
            succeed("build", "--items", items, "--users", users, "--models", made, "--version", version)
        made.rename(stock)
    return stock


def large(trial: Trial) -> Path:
    """Make a models folder with one version in which a search of 40,000 products takes milliseconds."""
    folder = trial.directory.parent / "large"
    if not folder.exists():
        items, users = vectors(trial.directory, 0, LARGE_ITEMS, N_USERS, LARGE_DIMS)
        succeed(
            *("build", "--items", items, "--users", users, "--models", folder, "--version", "large", "--promote"),
            *("--directions", "axes", "--max-budget", "50000", "--no-calibrate", "--no-similar"),
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
