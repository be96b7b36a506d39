"""A loaded model as the service uses it: the bundle, its curve, and its words already written as JSON."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from service.cost import DEFAULT_A, DEFAULT_B, CostLaw
from service.curve import Curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from greedy_core import SearchResult
    from greedy_core.bundle import Bundle

# Items whose JSON is kept ready; past this the store starts anew, so that a large catalogue cannot fill the memory.
FRAGMENTS = 65_536

_NO_ITEMS = np.empty(0, dtype=np.int32)


class Model:
    """One version. Immutable but for the store of JSON fragments; kept alive by the requests that use it."""

    def __init__(self, bundle: Bundle, *, identity: str) -> None:
        self.bundle = bundle
        self.index = bundle.index
        self.identity = identity
        self.version = bundle.version
        self.curve = Curve.read(bundle.calibration)
        self.loaded_at = time.time()
        self.load_seconds = 0.0
        self.n_items = bundle.n_items
        self.n_dims = bundle.n_dims
        self.has_seen = bool(bundle.has_seen)
        self.tail = b',"model":' + orjson.dumps(self.version) + b',"search_us":'
        self._fragments: dict[int, bytes] = {}

    def law(self) -> CostLaw:
        """Return the calibrated cost law, or a guess that the live one soon replaces."""
        return (self.curve.law() if self.curve else None) or CostLaw(DEFAULT_A, DEFAULT_B)

    def reachable(self, budget: int) -> int:
        """Lower a budget that the index cannot spend: past its lists, but short of scoring every item."""
        if budget <= self.index.max_budget or budget >= self.n_items:
            return budget
        return self.index.max_budget

    def excluded(
        self, exclude: Sequence[str], user: int | None, *, exclude_seen: bool | None
    ) -> npt.NDArray[np.int32] | None:
        """Return the positions of all that must not appear: named by the caller, or seen by the user. Unknown ids are ignored."""
        seen = None
        if self.has_seen and user is not None and exclude_seen is not False:
            seen = self.bundle.seen_items(user)
            if not exclude:
                return seen
        if not exclude:
            return None
        find = self.bundle.item_position
        named = np.array([at for item in exclude if (at := find(item)) is not None], dtype=np.int32)
        return named if seen is None else np.concatenate((named, seen))

    def popular(self, top_k: int, excluded: npt.NDArray[np.int32] | None) -> npt.NDArray[np.int32]:
        """Return the most popular items that are not excluded."""
        popular = self.bundle.popular
        if excluded is None or not len(excluded):
            return popular[:top_k]
        shortlist = popular[: top_k + len(excluded)]
        return shortlist[~np.isin(shortlist, excluded)][:top_k]

    def fragments(self, positions: npt.NDArray[np.int32]) -> list[bytes]:
        """Return `{"item_id":...,"score":` for each item."""
        store = self._fragments
        found = []
        for position in positions.tolist():
            fragment = store.get(position)
            if fragment is None:
                if len(store) >= FRAGMENTS:
                    store.clear()
                fragment = store[position] = self._fragment(position)
            found.append(fragment)
        return found

    def describe(self) -> dict[str, Any]:
        """Return what `GET /model` says."""
        bundle = self.bundle
        return {
            "version": self.version,
            "n_items": bundle.n_items,
            "n_users": bundle.n_users,
            "n_dims": bundle.n_dims,
            "directions": bundle.index.directions,
            "max_budget": bundle.index.max_budget,
            "has_seen": self.has_seen,
            "calibrated": self.curve is not None,
            "built_at": bundle.built_at,
            "loaded_at": _utc(self.loaded_at),
            "load_seconds": round(self.load_seconds, 6),
            "metadata": bundle.metadata,
        }

    def _fragment(self, position: int) -> bytes:
        item = b'{"item_id":' + orjson.dumps(self.bundle.item_id(position))
        title = self.bundle.title(position)
        if title is not None:
            item += b',"title":' + orjson.dumps(title)
        return item + b',"score":'


class Receipt:
    """The last part of an answer, the same for every call that searches."""

    __slots__ = ("asked", "complete", "fallback", "granted", "reason", "search_us", "spent")

    def __init__(self, asked: int, granted: int, reason: str | None) -> None:
        self.asked = asked
        self.granted = granted
        self.reason = reason
        self.spent = 0
        self.complete = False
        self.fallback: bytes = b"null"
        self.search_us = 0


def write_answer(head: bytes, model: Model, result: SearchResult, receipt: Receipt) -> bytes:
    """Write the JSON of an answer. `head` is its beginning, up to and including the comma before "items".

    Scores are written with the fewest digits that give the same float32 back.
    """
    ids = result.ids
    if len(ids):
        scores = orjson.dumps(result.scores, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
        items = b"},".join([a + b for a, b in zip(model.fragments(ids), scores, strict=True)]) + b"}"
    else:
        items = b""
    return _finish(head, items, model, receipt)


def write_popular(head: bytes, model: Model, positions: npt.NDArray[np.int32], receipt: Receipt) -> bytes:
    """Write an answer that no search made: items without scores."""
    items = b",".join([fragment + b"null}" for fragment in model.fragments(positions)])
    return _finish(head, items, model, receipt)


def _finish(head: bytes, items: bytes, model: Model, receipt: Receipt) -> bytes:
    degraded = (
        b"null" if receipt.reason is None else b'{"from":%d,"reason":"%b"}' % (receipt.asked, receipt.reason.encode())
    )
    return b'%b"items":[%b],"budget":%d,"spent":%d,"complete":%b,"degraded":%b,"fallback":%b%b%d}' % (
        head,
        items,
        receipt.granted,
        receipt.spent,
        b"true" if receipt.complete else b"false",
        degraded,
        receipt.fallback,
        model.tail,
        receipt.search_us,
    )


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
