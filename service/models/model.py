"""A loaded model as the service uses it: the bundle, its calibration, and its words already written as JSON."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from greedy_core import Calibration, CalibrationError, InvalidAttributesError, most_popular
from service import errors
from service.logs import logger
from service.models.filters import AppliedFilters, ConfiguredFilters

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from greedy_core import Bundle, Eligible, FoundItems
    from service.answering.question import By, ItemsAsked

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


class ItemsKnown(NamedTuple):
    """Items that a vector is to be made of: those that the model knows, and how many it does not."""

    positions: npt.NDArray[np.int32]
    weights: Sequence[float] | None
    unknown: int


class Model:
    """One version. Immutable but for what it keeps ready; kept alive by the requests that use it.

    Methods that fill a store are called by one thread at a time: the loader's before the model serves, then the
    event loop's.
    """

    def __init__(
        self,
        bundle: Bundle,
        filters: ConfiguredFilters | None = None,
        filter_bytes: int = 64 << 20,
        *,
        arm: str | None = None,
        experiment: str | None = None,
    ) -> None:
        """Make a bundle ready.

        filter_bytes  memory for what filters let through
        arm           the name of the model where there are several: its answers say it
        experiment    the name of the experiment that deals out users: answers to those say it too
        """
        configured = ConfiguredFilters() if filters is None else filters
        self.bundle = bundle
        self.attributes = bundle.attributes
        self.filters = AppliedFilters(configured, bundle.attributes, bundle.n_items, filter_bytes)
        self.is_filtered = configured.default is not None
        self.index = bundle.index
        self.max_budget = bundle.index.max_budget
        self.fingerprint = bundle.fingerprint()
        self.version = bundle.version
        self.calibration = _calibration(bundle)
        self.quality = bundle.quality
        self.loaded_at = time.time()
        self.load_seconds = 0.0
        self.n_items = bundle.n_items
        self.n_dims = bundle.n_dims
        self.has_seen = bool(bundle.has_seen)
        self.similar = bundle.similar
        self.similar_calibration = None if bundle.similar is None else bundle.similar.calibration
        self.makes_vectors_by = "mean" if bundle.fold_in is None else "fold_in"
        self.arm = arm
        named = b',"model":' + orjson.dumps(self.version) + (b"" if arm is None else b',"arm":"%b"' % arm.encode())
        dealt = b"" if experiment is None else b',"experiment":"%b"' % experiment.encode()
        self.tail = named + b',"search_us":'
        self.dealt_tail = named + dealt + b',"search_us":'
        self._fragments: dict[int, bytes] = {}
        self._users: dict[str, KnownUser] = {}

    def reachable(self, budget: int, eligible: Eligible | None = None) -> int:
        """Lower a budget that the index cannot spend: past its lists, but short of scoring every (eligible) item."""
        if budget <= self.max_budget or budget >= self.n_items:
            return budget
        if eligible is not None and budget >= eligible.count:
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

    def compared_by(self, by: By | None) -> By:
        """Return what items are compared by when a caller wants this, or does not say. 409 if the model cannot."""
        if self.similar is None:
            if by == "cosine":
                raise errors.no_cosine()
            return "inner_product"
        return by or "cosine"

    def met(self, asked: ItemsAsked) -> ItemsKnown:
        """Return which of the items asked the model knows. May be called from any thread."""
        ids, weights = asked.ids, asked.weights
        positions = self.bundle.item_positions(ids)
        known = positions >= 0
        unknown = len(ids) - int(known.sum())
        if unknown and asked.loose:
            # An id with a comma is one id if the model knows it, and otherwise several.
            ids = [
                part
                for text, is_known in zip(ids, known.tolist(), strict=True)
                for part in ([text] if is_known or "," not in text else filter(None, text.split(",")))
            ]
            positions = self.bundle.item_positions(ids)
            known = positions >= 0
            unknown = len(ids) - int(known.sum())
        if unknown and weights is not None:
            weights = [weight for weight, is_known in zip(weights, known.tolist(), strict=True) if is_known]
        return ItemsKnown(positions[known] if unknown else positions, weights, unknown)

    def popular(
        self, top_k: int, excluded: npt.NDArray[np.int32] | None, eligible: Eligible | None = None
    ) -> npt.NDArray[np.int32]:
        """Return the most popular items that are not excluded, and are eligible where only some are."""
        return most_popular(self.bundle.popular, top_k, excluded, eligible)

    def find_items(self, text: str, limit: int) -> FoundItems:
        """Return items by words of their titles, of those that the default filter lets through. For any thread."""
        return self.bundle.find_items(text, limit, self.filters.apply(None).eligible if self.is_filtered else None)

    def fields(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names; InvalidAttributesError for one that is neither an attribute nor the title."""
        for name in names:
            if name not in self.attributes and not (name == "title" and self.bundle.has_titles):
                raise InvalidAttributesError(self.attributes.unknown(name))
        return names

    def shown_fields(self, positions: Sequence[int], names: Sequence[str]) -> list[bytes]:
        """Return the JSON of some attributes of each item. May be called from any thread."""
        value_of = {
            name: self.attributes[name].value if name in self.attributes else self.bundle.title for name in names
        }
        return [orjson.dumps({name: value(at) for name, value in value_of.items()}) for at in positions]

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
            "makes_vectors_by": self.makes_vectors_by,
            "similar_by": self.compared_by(None),
            "calibrated": self.calibration is not None,
            "built_at": bundle.built_at,
            "loaded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.loaded_at)),
            "load_seconds": round(self.load_seconds, 6),
            "metadata": bundle.metadata,
            "attributes": bundle.attributes.describe(),
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
