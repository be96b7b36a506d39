"""Small models with everything in them that can go wrong, and the service running on them."""

import shutil

import numpy as np
import pytest

from greedy_core import GreedyIndex, VersionsFolder, write_bundle
from tests.service.running import in_process

N_ITEMS, N_USERS, N_DIMS = 2000, 200, 16

LONG_ID = "l" * 1000
STRANGE_IDS = ["a/b", "ünï ©ode", "with space", "comma,inside", 'quote"and\\slash', "&=?#%", LONG_ID, "日本"]

RECALLS = {16: 0.50, 64: 0.75, 256: 0.90, 1024: 0.99}


def calibration(factor=1.0):
    """Return a made-up curve; a factor below 1 makes it a worse one."""
    points = [
        {
            "budget": budget,
            "recall_at_10": recall * factor,
            "standard_error": 0.01,
            "prec_at_5": recall * factor,
            "products": budget,
            "seconds": budget * 2e-7,
            "seconds_per_product": 2e-7,
            "best": "threshold",
        }
        for budget, recall in RECALLS.items()
    ]
    return {"points": points, "sample_size": 500, "directions": "principal", "screening": "threshold"}


CALIBRATION = calibration()


def write_model(path, *, seed=0, n_items=N_ITEMS, calibration=CALIBRATION, max_budget=512, seen=True, titles=True):
    """Write a model: users u0, u1, ... (the last without a vector), items i0, i1, ... and some with strange ids."""
    rng = np.random.default_rng(seed)
    scale = np.linspace(2, 0.2, N_DIMS)
    items = (rng.standard_normal((n_items, N_DIMS)) * scale).astype(np.float32)
    users = (rng.standard_normal((N_USERS, N_DIMS)) * scale).astype(np.float32)
    users[-1] = np.nan
    item_ids = [*STRANGE_IDS, *(f"i{n}" for n in range(len(STRANGE_IDS), n_items))]
    starts = np.arange(N_USERS + 1) * 5
    arguments = {
        "index": GreedyIndex.build(items, queries=users[:-1], directions="graph", max_budget=max_budget),
        "item_ids": item_ids,
        "user_vectors": users,
        "user_ids": [*STRANGE_IDS, *(f"u{n}" for n in range(len(STRANGE_IDS), N_USERS))],
        "seen": (starts, rng.integers(0, n_items, starts[-1])) if seen else None,
        "titles": [None if n % 3 == 0 else f"Title of {n}" for n in range(n_items)] if titles else None,
        "calibration": calibration,
    }
    return write_bundle(path, **arguments)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """One bundle that nobody changes."""
    return write_model(tmp_path_factory.mktemp("bundle") / "v1")


@pytest.fixture(scope="session")
def versions(tmp_path_factory, model):
    """Bundles to make folders of: v1, v2 with other vectors, poor with a low recall, corrupt with an altered file."""
    path = tmp_path_factory.mktemp("versions")
    shutil.copytree(model.path, path / "v1")
    write_model(path / "v2", seed=2)
    write_model(path / "poor", seed=3, calibration=calibration(0.8))
    write_model(path / "corrupt", seed=4)
    victim = max((path / "corrupt").glob("*.npy"), key=lambda file: file.stat().st_size)
    damaged = bytearray(victim.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    victim.write_bytes(damaged)
    return path


@pytest.fixture
def folder(tmp_path, versions):
    """A models folder of one's own, v1 current."""
    path = tmp_path / "models"
    shutil.copytree(versions, path)
    models = VersionsFolder(path)
    models.promote("v1")
    return models


@pytest.fixture(scope="session")
def app(model):
    """The application on the shared model, for tests that leave it as it was."""
    with in_process(model.path) as running:
        yield running
