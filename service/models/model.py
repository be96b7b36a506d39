"""A loaded model as the service uses it: the bundle, its calibration, and its words already written as JSON."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from greedy_core import Calibration, CalibrationError
from service.logs import logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from greedy_core import Bundle

# Items and users that are kept ready; past this a store starts anew, so that a large model cannot fill the memory.
FRAGMENTS = 65_536
KNOWN_USERS = 16_384


class KnownUser(NamedTuple):
    """What a search for a user needs: the beginning of the answer, the query, what to leave out, and the hint.

    The hint is what the bundle has worked out beforehand for searches with this query.
    """

    head: bytes
    vector: npt.NDArray[np.float32]
    seen: npt.NDArray[np.int32] | None
    hint: npt.NDArray[Any] | None


class Model:
    """One version. Immutable but for what it keeps ready; kept alive by the requests that use it.

    Methods that fill a store are called by one thread at a time: the loader's before the model serves, then the
    event loop's.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.index = bundle.index
        self.max_budget = bundle.index.max_budget
        self.fingerprint = bundle.fingerprint()
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

    def reachable(self, budget: int) -> int:
        """Lower a budget that the index cannot spend: past its lists, but short of scoring every item."""
        if budget <= self.max_budget or budget >= self.n_items:
            return budget
        return self.max_budget

    def excluded(self, exclude: Sequence[str], seen: npt.NDArray[np.int32] | None) -> npt.NDArray[np.int32] | None:
        """Return the positions of what the caller named, and of what the user has seen. Unknown ids are ignored.

        May be called from any thread.
        """
        if not exclude:
            return seen
        named = self.bundle.item_positions(exclude)
        named = named[named >= 0]
        return named if seen is None else np.concatenate((named, seen))

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
            user = KnownUser(head, vector, seen, self.bundle.user_remembered(position))
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
            "loaded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.loaded_at)),
            "load_seconds": round(self.load_seconds, 6),
            "metadata": bundle.metadata,
        }

    def _fragment(self, position: int) -> bytes:
        item = b'{"item_id":' + orjson.dumps(self.bundle.item_id(position))
        title = self.bundle.title(position)
        if title is not None:
            item += b',"title":' + orjson.dumps(title)
        return item + b',"score":'


def _calibration(bundle: Bundle) -> Calibration | None:
    """Read what the bundle says about its budgets; one that cannot be used counts as none."""
    if not bundle.calibration:
        return None
    try:
        return Calibration.from_dict(bundle.calibration)
    except CalibrationError as error:
        logger().warning("calibration ignored", version=bundle.version, reason=str(error))
        return None
