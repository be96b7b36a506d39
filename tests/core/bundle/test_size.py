"""The sizes in the runbook are those of bundles on disk."""

import re
from pathlib import Path

import numpy as np
import pytest

from greedy_core import PRECISIONS, Bundle, FoldIn, build_bundle, read_manifest

RUNBOOK = Path(__file__).resolve().parents[3] / "deploy" / "README.md"
N_ITEMS, N_USERS, N_DIMS, MAX_BUDGET = 2500, 1500, 40, 128
# How the files of a part are called.
STARTS = {
    "items": ("index.rows",),
    "lists": ("index.list_", "index.axes"),
    "graph": ("index.graph_",),
    "users": ("users.vectors", "users.remembered"),
    "ids": ("items.ids", "users.ids"),
    "titles": ("items.titles",),
    "seen": ("seen.",),
    "popular": ("popular",),
    "fold-in": ("fold_in.",),
    "similar": ("similar.",),
}


def formula():
    """Return what the runbook says a model takes, part by part, as expressions."""
    text = RUNBOOK.read_text()
    names = "items|lists|graph|users|ids|titles|seen|popular|fold-in|similar"
    return dict(re.findall(rf"^    ({names}) +([^,\n]+)", text, re.MULTILINE))


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(3)
    return [rng.normal(size=(n, N_DIMS)).astype(np.float32) for n in (N_ITEMS, N_USERS)]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_within_a_twentieth(tmp_path, vectors, precision):
    items, users = vectors
    path = tmp_path / "model"
    item_ids, user_ids = [f"sku-{n:09d}" for n in range(N_ITEMS)], [f"somebody@{n}.example" for n in range(N_USERS)]
    titles = [f"The title of number {n}, with a ü" for n in range(N_ITEMS)]
    starts = np.arange(N_USERS + 1) * 30
    seen = np.random.default_rng(4).integers(0, N_ITEMS, starts[-1])
    build_bundle(
        path, items=items, users=users, item_ids=item_ids, user_ids=user_ids, titles=titles, seen=(starts, seen),
        fold_in=FoldIn(1.0, 10.0), directions="graph", max_budget=MAX_BUDGET, calibrated=False, precision=precision,
    )  # fmt: skip
    files = read_manifest(path).files
    names = {
        "n_items": N_ITEMS,
        "n_users": N_USERS,
        "n_dims": N_DIMS,
        "max_budget": MAX_BUDGET,
        "b": 4 if precision == "float32" else 2,
        "padded": 48,
        "turned": 64,
        "id_bytes": sum(map(len, item_ids + user_ids)),
        "title_bytes": sum(len(title.encode()) for title in titles),
        "n_seen": files["seen.items"].shape[0],
    }
    parts = formula()
    assert len(parts) == 10
    sizes = {}
    for part, expression in parts.items():
        # The index of similar items has chosen by itself how many neighbours an item has.
        graph = "similar" if part == "similar" else "index"
        degree = files[f"{graph}.graph_neighbours"].shape[1]
        sizes[part] = eval(expression, {"__builtins__": {}}, names | sizes | {"degree": degree})
    assert sum(sizes.values()) == pytest.approx(read_manifest(path).bytes, rel=0.05)
    # Each by itself: where one part is most of a model, what is wrong with another would hide in the sum.
    on_disk = {part: sum(file.bytes for name, file in files.items() if name.startswith(STARTS[part])) for part in sizes}
    assert sizes == pytest.approx(on_disk, rel=0.05)
    assert sum(on_disk.values()) == sum(file.bytes for file in files.values())
    assert sizes["items"] == pytest.approx(files["index.rows"].bytes, rel=0.01)
    assert Bundle.open(path).index.precision == precision
