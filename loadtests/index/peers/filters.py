"""`make peers ARGS=--filters`: time and recall where a filter leaves only a share of the items.

Two kinds of attributes: *independent* ones take items at random; *correlated* ones take those most alike to one item,
by cosine, as a category does. Beside our index: hnswlib with a filter callback, faiss with an IDSelector, and an exact
scan over the eligible items by our own kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core import Eligible, ExactIndex
from loadtests.index.peers.contestants import EXACT, TOP_K, VECTOR, Setting
from loadtests.index.peers.frontier import Point, seconds_at
from loadtests.index.peers.libraries import FaissHnsw, FaissIvfFlat, HnswlibIp
from loadtests.index.peers.race import passed, recall, side_by_side, track

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from greedy_core import GreedyIndex
    from loadtests.index.peers.libraries import Peer

    Floats = NDArray[np.float32]
    Mask = NDArray[np.bool_]

KINDS = ("independent", "correlated")
SHARES = (0.5, 0.1, 0.03, 0.01, 0.001)
BUDGETS = (8, 16, 24, 32, 48, 64, 80, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
EFS = (10, 25, 60, 160, 400, 1000, 2000)
LEVEL = 0.95
FAMILIES = (HnswlibIp.family, FaissHnsw.family, FaissIvfFlat.family)
# The recall at which more effort is not tried any more.
ENOUGH = 0.995


class Filter(NamedTuple):
    """One filter: its kind, the share of the items that it leaves, and these."""

    kind: str
    share: float
    mask: Mask


def draw(items: Floats, kind: str, share: float, seed: int) -> Filter:
    """Return a filter that leaves a share of the items."""
    rng = np.random.default_rng(seed)
    if kind == "independent":
        keys = rng.random(len(items))
    else:
        lengths = np.maximum(np.linalg.norm(items, axis=1), np.finfo(np.float32).tiny)
        keys = items @ items[rng.integers(len(items))] / lengths
    mask = np.zeros(len(items), dtype=np.bool_)
    mask[np.argsort(-keys, kind="stable")[: max(1, round(share * len(items)))]] = True
    return Filter(kind, share, mask)


def our_settings(index: GreedyIndex, mask: Mask | None) -> list[Setting]:
    """Return our index at every budget, for vectors that it has never seen."""
    eligible = None if mask is None else Eligible.from_mask(mask)
    budgets = [budget for budget in BUDGETS if budget < index.n_items]
    return [_ours(index, budget, eligible) for budget in budgets]


def _ours(index: GreedyIndex, budget: int, eligible: Eligible | None) -> Setting:
    search = index.search
    return Setting(
        f"budget {budget}",
        lambda query: search(query, TOP_K, budget, None, None, None, eligible),
        lambda result: result.ids,
    )


def exact_setting(index: ExactIndex, mask: Mask | None) -> Setting:
    """Return the exact scan of the eligible items."""
    eligible, search = None if mask is None else Eligible.from_mask(mask), index.search
    return Setting(
        "all eligible items",
        lambda query: search(query, TOP_K, eligible=eligible),
        lambda result: result.ids,
    )


def peer_settings(peer: Peer, mask: Mask) -> list[Setting]:
    """Return a built peer under a filter, least effort first."""
    index = peer.index
    if isinstance(peer, HnswlibIp):
        allowed = mask.tolist().__getitem__

        def ask(query: Floats) -> Any:
            try:
                return index.knn_query(query, TOP_K, 1, allowed)
            except RuntimeError:  # it found fewer than were asked for
                return [np.empty((1, 0), dtype=np.int64)]

        return [
            Setting(f"ef={ef}", ask, lambda answer: np.ravel(answer[0]), lambda ef=ef: index.set_ef(ef)) for ef in EFS
        ]
    faiss = peer.library
    bits = np.packbits(mask, bitorder="little")
    if isinstance(peer, FaissHnsw):
        grid = [(f"ef={ef}", faiss.SearchParametersHNSW, {"efSearch": ef}) for ef in EFS]
    else:
        probes = [1 << p for p in range(11) if 1 << p <= peer.options["lists"]]
        grid = [(f"nprobe={n}", faiss.SearchParametersIVF, {"nprobe": n}) for n in probes]
    return [_selected(faiss, index, label, kind, options, bits) for label, kind, options in grid]


def _selected(
    faiss: Any, index: Any, label: str, kind: Any, options: dict[str, int], bits: NDArray[np.uint8]
) -> Setting:
    # The selector looks at the bits where they are: both live as long as the parameters.
    selector = faiss.IDSelectorBitmap(bits)
    parameters = kind(sel=selector, **options)
    parameters.kept = (selector, bits)
    return Setting(
        label, lambda query: index.search(query[None], TOP_K, params=parameters), lambda answer: answer[1][0]
    )


def rising(settings: Sequence[Setting], queries: Floats, truth: NDArray[np.int32], limit: float) -> list[Setting]:
    """Return the settings up to the first that finds all, or that takes ten times as long as the limit."""
    kept = []
    for setting in settings:
        kept.append(setting)
        few = queries[: max(1, len(queries) // 4)]
        if float(np.median(passed(setting, few[:5]))) > 10 * limit:
            break
        if recall(setting, few, truth[: len(few)]) >= ENOUGH:
            break
    return kept


def measured(
    contestants: dict[str, Sequence[Setting]], queries: Floats, truth: NDArray[np.int32], rounds: int
) -> list[Point]:
    """Return what every setting of every family took and found, side by side."""
    entries = [(family, setting) for family, settings in contestants.items() for setting in settings]
    times = side_by_side([setting for _, setting in entries], queries, rounds)
    return [
        Point(family, family, setting.label, recall(setting, queries, truth), seconds)
        for (family, setting), seconds in zip(entries, times, strict=True)
    ]


def compare(
    index: GreedyIndex, exact: ExactIndex, peers: Sequence[Peer], queries: Floats, *, rounds: int
) -> list[dict[str, Any]]:
    """Return a row for all items and one for each kind of attribute and share."""
    items = np.ascontiguousarray(index.items)
    filters: list[Filter | None] = [None]
    filters += [draw(items, kind, share, seed) for kind in KINDS for seed, share in enumerate(SHARES)]
    rows = []
    for drawn in track(filters, "filters"):
        mask = None if drawn is None else drawn.mask
        scan = exact_setting(exact, mask)
        truth = _truth(exact, queries, mask)
        (limit,) = side_by_side([scan], queries[: max(1, len(queries) // 4)], 1)
        contestants: dict[str, Sequence[Setting]] = {
            VECTOR: rising(our_settings(index, mask), queries, truth, limit),
            EXACT: [scan],
        }
        if mask is not None:
            for peer in peers:
                contestants[peer.family] = rising(peer_settings(peer, mask), queries, truth, limit)
        points = measured(contestants, queries, truth, rounds)
        at_256 = _ours(index, min(256, index.n_items - 1), None if mask is None else Eligible.from_mask(mask))
        rows.append(
            {
                "kind": "all items" if drawn is None else drawn.kind,
                "share": 1.0 if drawn is None else drawn.share,
                "eligible": index.n_items if mask is None else int(mask.sum()),
                "recall_at_256": recall(at_256, queries, truth),
                "seconds": {
                    family: seconds_at([point for point in points if point.family == family], LEVEL)
                    for family in contestants
                },
                "most_recall": {
                    family: max(point.recall for point in points if point.family == family) for family in contestants
                },
                "points": [point._asdict() for point in points],
            }
        )
    return rows


def _truth(exact: ExactIndex, queries: Floats, mask: Mask | None) -> NDArray[np.int32]:
    eligible = None if mask is None else Eligible.from_mask(mask)
    results = exact.search_batch(queries, TOP_K, threads=2, eligible=eligible)
    return np.stack([result.ids for result in results])
