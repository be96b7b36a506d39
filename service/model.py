"""A loaded model as the service uses it: the bundle, its calibration, and its words already written as JSON."""

from __future__ import annotations

import time
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from greedy_core import Calibration, CalibrationError
from service.cost import DEFAULT_A, DEFAULT_B, CostLaw
from service.logs import logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from greedy_core import Bundle, SearchResult

# Items and users that are kept ready; past this a store starts anew, so that a large model cannot fill the memory.
FRAGMENTS = 65_536
KNOWN_USERS = 16_384
POSITIONS = 65_536


class KnownUser(NamedTuple):
    """What a search for a user needs: the beginning of the answer, the query, what to leave out, and the route."""

    head: bytes
    vector: npt.NDArray[np.float32]
    seen: npt.NDArray[np.int32] | None
    route: npt.NDArray[np.float32] | None


class Model:
    """One version. Immutable but for what it keeps ready; kept alive by the requests that use it."""

    def __init__(self, bundle: Bundle, *, identity: str) -> None:
        self.bundle = bundle
        self.index = bundle.index
        self.max_budget = bundle.index.max_budget
        self.identity = identity
        self.version = bundle.version
        self.calibration = _calibration(bundle)
        self.loaded_at = time.time()
        self.load_seconds = 0.0
        self.n_items = bundle.n_items
        self.n_dims = bundle.n_dims
        self.has_seen = bool(bundle.has_seen)
        self.tail = b',"model":' + orjson.dumps(self.version) + b',"search_us":'
        self._fragments: dict[int, bytes] = {}
        self._users: dict[str, KnownUser] = {}
        self._positions: dict[str, int] = {}

    def law(self) -> CostLaw:
        """Return the calibrated cost law, or a guess that the live one soon replaces."""
        return CostLaw.calibrated(self.calibration) if self.calibration else CostLaw(DEFAULT_A, DEFAULT_B)

    def reachable(self, budget: int) -> int:
        """Lower a budget that the index cannot spend: past its lists, but short of scoring every item."""
        if budget <= self.max_budget or budget >= self.n_items:
            return budget
        return self.max_budget

    def excluded(self, exclude: Sequence[str], seen: npt.NDArray[np.int32] | None) -> npt.NDArray[np.int32] | None:
        """Return the positions of what the caller named, and of what the user has seen. Unknown ids are ignored."""
        if not exclude:
            return seen
        found = list(map(self._positions.get, exclude))
        if None in found:
            found = list(map(self._item_position, exclude))
        named = np.array(found, dtype=np.int32)
        if -1 in found:
            named = named[named >= 0]
        return named if seen is None else np.concatenate((named, seen))

    def _item_position(self, item_id: str) -> int:
        """Return where an item stands, -1 if there is no such item; remembered, for callers repeat themselves."""
        store = self._positions
        position = store.get(item_id)
        if position is None:
            found = self.bundle.item_position(item_id)
            position = -1 if found is None else found
            if len(store) >= POSITIONS:
                store.clear()
            store[item_id] = position
        return position

    def popular(self, top_k: int, excluded: npt.NDArray[np.int32] | None) -> npt.NDArray[np.int32]:
        """Return the most popular items that are not excluded."""
        popular = self.bundle.popular
        if excluded is None or not len(excluded):
            return popular[:top_k]
        shortlist = popular[: top_k + len(excluded)]
        return shortlist[~np.isin(shortlist, excluded)][:top_k]

    def user(self, user_id: str) -> KnownUser | None:
        """Return a user with a vector, ready to be searched for; None for anybody else."""
        user = self._users.get(user_id)
        if user is None:
            position = self.bundle.user_position(user_id)
            vector = None if position is None else self.bundle.user_vector(position)
            if position is None or vector is None:
                return None
            head = b'{"user_id":' + orjson.dumps(user_id) + b","
            seen = self.bundle.seen_items(position) if self.has_seen else None
            user = KnownUser(head, vector, seen, self.bundle.user_decomposition(position))
            if len(self._users) >= KNOWN_USERS:
                self._users.clear()
            self._users[user_id] = user
        return user

    def fragments(self, positions: list[int]) -> list[bytes]:
        """Return `{"item_id":...,"score":` for each item."""
        store = self._fragments
        try:
            return [store[position] for position in positions]
        except KeyError:
            if len(store) >= FRAGMENTS:
                store.clear()
            for position in positions:
                if position not in store:
                    store[position] = self._fragment(position)
            return [store[position] for position in positions]

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
            "calibrated": self.calibration is not None,
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
    """What was asked, what was granted, and why that is less."""

    __slots__ = ("asked", "granted", "reason")

    def __init__(self, asked: int, granted: int, reason: str | None) -> None:
        self.asked = asked
        self.granted = granted
        self.reason = reason

    def degraded(self) -> bytes:
        """Return the JSON of `degraded`, for a budget that was lowered."""
        return b'{"from":%d,"reason":"%b"}' % (self.asked, (self.reason or "").encode())


def write_answer(head: bytes, model: Model, result: SearchResult, receipt: Receipt, search_us: int) -> bytes:
    """Write the JSON of an answer. `head` is its beginning, up to and including the comma before "items".

    Scores are written with the fewest digits that give the same float32 back.
    """
    ids, scores, spent, complete, _ = result
    items = b""
    if len(ids):
        numbers = orjson.dumps(scores, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
        items = b"},".join(map(add, model.fragments(ids.tolist()), numbers)) + b"}"
    return _ANSWER % (
        head,
        items,
        receipt.granted,
        spent,
        b"true" if complete else b"false",
        b"null" if receipt.reason is None else receipt.degraded(),
        b"null",
        model.tail,
        search_us,
    )


def write_popular(head: bytes, model: Model, positions: list[int], receipt: Receipt, fallback: bytes) -> bytes:
    """Write an answer that no search made: items without scores, nothing spent."""
    items = b",".join([fragment + b"null}" for fragment in model.fragments(positions)])
    degraded = b"null" if receipt.reason is None else receipt.degraded()
    return _ANSWER % (head, items, receipt.granted, 0, b"false", degraded, fallback, model.tail, 0)


_ANSWER = b'%b"items":[%b],"budget":%d,"spent":%d,"complete":%b,"degraded":%b,"fallback":%b%b%d}'


def _calibration(bundle: Bundle) -> Calibration | None:
    """Read what the bundle says about its budgets; one that cannot be used counts as none."""
    if not bundle.calibration:
        return None
    try:
        return Calibration.from_dict(bundle.calibration)
    except CalibrationError as error:
        logger().warning("calibration ignored", version=bundle.version, reason=str(error))
        return None


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
