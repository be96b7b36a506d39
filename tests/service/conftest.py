"""Small models with everything in them that can go wrong, and the service running on them."""

import shutil
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from greedy_core import (
    Attributes,
    FoldIn,
    GreedyIndex,
    Quality,
    QualityPoint,
    Scores,
    SimilarItems,
    VersionsFolder,
    write_bundle,
)
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
    filtered = [
        {"selectivity": share, "budgets": [16, 64, 256], "recalls": recalls, "standard_errors": [0.01] * 3}
        for share, recalls in ((0.3, [0.4, 0.6, 0.8]), (0.01, [0.7, 1.0, 1.0]))
    ]
    measured = {"sample_size": 500, "directions": "principal", "screening": "threshold"}
    return measured | {"points": points, "filtered": filtered}


CALIBRATION = calibration()
FOLD_IN = FoldIn(regularization=0.5, alpha=5.0)


def shop(n_items):
    """Return attributes of every kind, with gaps."""
    return Attributes.from_columns(
        {
            "category": [None if n % 11 == 0 else f"c{n % 5}" for n in range(n_items)],
            "price": [None if n % 7 == 0 else n % 40 + 0.5 for n in range(n_items)],
            "in_stock": [None if n % 13 == 0 else n % 3 > 0 for n in range(n_items)],
            "tags": [[f"t{n % 4}", f"t{n % 6}"] if n % 9 else None for n in range(n_items)],
            "published": [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=n % 300) for n in range(n_items)],
        },
        n_items,
    )


def quality(ndcg=0.2):
    """Return a made-up quality: budget 256 keeps 90 % of an exact search's NDCG."""
    points = tuple(QualityPoint(budget, ndcg * recall, recall) for budget, recall in RECALLS.items())
    return Quality(Scores(0.5, 0.3, ndcg, 0.4), 0.01, Scores(0.1, 0.05, 0.02, 0.01), points, 150, "by hand")


def write_model(
    path,
    *,
    seed=0,
    n_items=N_ITEMS,
    calibration=CALIBRATION,
    max_budget=512,
    seen=True,
    titles=True,
    attributes=True,
    fold_in=FOLD_IN,
    similar=True,
    quality=None,
):
    """Write a model: users u0, u1, ... (the last without a vector), items i0, i1, ... and some with strange ids.

    Large ones are there for their size alone: they have lists instead of a graph, which takes a minute to make, and no
    similar items.
    """
    is_large = n_items > 10_000
    rng = np.random.default_rng(seed)
    scale = np.linspace(2, 0.2, N_DIMS)
    items = (rng.standard_normal((n_items, N_DIMS)) * scale).astype(np.float32)
    users = (rng.standard_normal((N_USERS, N_DIMS)) * scale).astype(np.float32)
    users[-1] = np.nan
    item_ids = [*STRANGE_IDS, *(f"i{n}" for n in range(len(STRANGE_IDS), n_items))]
    starts = np.arange(N_USERS + 1) * 5
    directions = "principal" if is_large else "graph"
    index = GreedyIndex.build(items, queries=users[:-1], directions=directions, max_budget=max_budget)
    arguments = {
        "index": index,
        "fold_in": fold_in,
        "similar": SimilarItems.build(index, directions="principal") if similar and not is_large else None,
        "item_ids": item_ids,
        "user_vectors": users,
        "user_ids": [*STRANGE_IDS, *(f"u{n}" for n in range(len(STRANGE_IDS), N_USERS))],
        "seen": (starts, rng.integers(0, n_items, starts[-1])) if seen else None,
        "titles": [None if n % 3 == 0 else f"Title of {n}" for n in range(n_items)] if titles else None,
        "calibration": calibration,
        "attributes": shop(n_items) if attributes else None,
        "quality": quality,
    }
    return write_bundle(path, **arguments)


def write_numbered_model(path):
    """Write a model whose users and items have running numbers for ids."""
    vectors = np.random.default_rng(5).standard_normal((100, N_DIMS)).astype(np.float32)
    ids = [str(number) for number in range(100)]
    index = GreedyIndex.build(vectors)
    arguments = {"item_ids": ids, "user_vectors": vectors, "user_ids": ids, "calibration": CALIBRATION}
    arguments |= {"attributes": shop(100), "similar": SimilarItems.build(index, directions="principal")}
    return write_bundle(path, index=index, **arguments)


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
