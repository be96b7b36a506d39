"""Interactions: events that count, without rare users and items, and the sparse matrices that are made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.errors import InvalidEventsError, StorageError
from greedy_core.formats.names import missing_extra

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.training.events import Events


@dataclass(frozen=True)
class Interactions:
    """What a model is trained on. Users and items are numbered without gaps; every one of them is in some interaction.

    weights  None: a pair counts 1, however often it stands there. Else the weights of a pair are added
    seen     (starts, items) in CSR form: what each user has met, low ratings included
    notes    sentences on what was left out, for people
    """

    users: npt.NDArray[np.int32]
    items: npt.NDArray[np.int32]
    user_ids: list[str]
    item_ids: list[str]
    weights: npt.NDArray[np.float32] | None
    times: npt.NDArray[Any] | None
    seen: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
    notes: list[str] = field(default_factory=list)

    @property
    def n_users(self) -> int:
        """How many users there are."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return len(self.item_ids)

    @classmethod
    def of(
        cls, events: Events, *, min_user: int = 1, min_item: int = 1, min_rating: float | None = None
    ) -> Interactions:
        """Keep what counts.

        min_user    users with fewer distinct items are left out, and
        min_item    items with fewer distinct users, again and again until all that are left have enough
        min_rating  lower ratings do not count as interactions (but as seen); by default those in the lower half of
                    the scale and in its middle

        Raises InvalidEventsError if nothing is left that a model could be made of.
        """
        refuse_hopeless(events.source, len(events), events.user_ids, events.item_ids)
        notes = list(events.notes)
        liked, note = _liked(events, min_rating)
        notes += [note] if note else []
        met = pairs(events.users[liked], events.items[liked], None, len(events.user_ids), len(events.item_ids))
        keep_users, keep_items = _core(met, min_user, min_item)
        n_kept = int(keep_users.sum()), int(keep_items.sum())
        if 0 in n_kept:
            raise InvalidEventsError(
                f"nothing of {events.source} is left without users of fewer than {min_user} items, items of fewer than "
                f"{min_item} users and low ratings; lower --min-user, --min-item or --min-rating."
            )
        for n, ids, what, least in (
            (n_kept[0], events.user_ids, "users", min_user),
            (n_kept[1], events.item_ids, "items", min_item),
        ):
            if n < len(ids):
                why = f"fewer than {least} interactions" if least > 1 else "no rating that counts as liked"
                notes.append(f"{len(ids) - n:,} of {len(ids):,} {what} left out: {why}.")
        kept = keep_users[events.users] & keep_items[events.items]
        new_user, new_item = np.cumsum(keep_users, dtype=np.int32) - 1, np.cumsum(keep_items, dtype=np.int32) - 1
        history = pairs(new_user[events.users[kept]], new_item[events.items[kept]], None, *n_kept)
        kept &= liked
        user_ids = [events.user_ids[at] for at in np.flatnonzero(keep_users).tolist()]
        item_ids = [events.item_ids[at] for at in np.flatnonzero(keep_items).tolist()]
        users, items = new_user[events.users[kept]], new_item[events.items[kept]]
        refuse_hopeless(events.source, len(users), user_ids, item_ids)
        return cls(
            users,
            items,
            user_ids,
            item_ids,
            None if events.weights is None else events.weights[kept],
            None if events.times is None else events.times[kept],
            (history.indptr.astype(np.int64), history.indices),
            notes,
        )

    def matrix(self, rows: npt.NDArray[np.bool_] | None = None) -> Any:
        """Return the users x items matrix of weights, of some events only if asked: CSR with sorted indices."""
        chosen: Any = slice(None) if rows is None else rows
        weights = None if self.weights is None else self.weights[chosen]
        return pairs(self.users[chosen], self.items[chosen], weights, self.n_users, self.n_items)


def pairs(
    users: npt.NDArray[np.int32],
    items: npt.NDArray[np.int32],
    weights: npt.NDArray[np.float32] | None,
    n_users: int,
    n_items: int,
) -> Any:
    """Return a CSR matrix with an entry for each distinct pair: 1, or the sum of its weights."""
    try:
        from scipy.sparse import coo_matrix  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(missing_extra("training", "scipy", "train")) from None
    values = np.ones(len(users), dtype=np.float32) if weights is None else weights
    # Goes from rows to columns by counting, in one pass, and adds up pairs that are there more than once.
    matrix = coo_matrix((values, (users, items)), shape=(n_users, n_items)).tocsr()
    matrix.sort_indices()
    if weights is None:
        matrix.data[:] = 1
    return matrix


def refuse_hopeless(
    source: str,
    n_events: int,
    user_ids: list[str],
    item_ids: list[str],
) -> None:
    """Refuse interactions that no model can be made of."""
    if n_events == 0:
        raise InvalidEventsError(f"{source} has no interactions; give a table with one in each row.")
    count = f"all {n_events:,} interactions in {source}" if n_events > 1 else f"the only interaction in {source}"
    needs = "a model needs at least two users and two items"
    if len(user_ids) == 1 and len(item_ids) == 1:
        verb = "are the same pair of" if n_events > 1 else "is of"
        raise InvalidEventsError(f"{count} {verb} user {user_ids[0]} and item {item_ids[0]}; {needs}.")
    verb = "are by one user" if n_events > 1 else "is by one user"
    if len(user_ids) == 1:
        raise InvalidEventsError(f"{count} {verb}, {user_ids[0]}; {needs}: check --user.")
    if len(item_ids) == 1:
        raise InvalidEventsError(f"{count} are with one item, {item_ids[0]}; {needs}: check --item.")


def _liked(events: Events, min_rating: float | None) -> tuple[npt.NDArray[np.bool_], str | None]:
    """Return which events count as interactions, and a sentence on those that do not."""
    if events.ratings is None:
        if min_rating is not None:
            raise InvalidEventsError("min_rating needs ratings; name their column with --rating.")
        return np.ones(len(events), dtype=bool), None
    if min_rating is None:
        low, high = float(events.ratings.min()), float(events.ratings.max())
        middle = (low + high) / 2
        liked = events.ratings > middle if high > low else np.ones(len(events), dtype=bool)
        rule = f"{middle:g} or less, the lower half of a scale from {low:g} to {high:g}"
    else:
        liked = events.ratings >= min_rating
        rule = f"less than {min_rating:g}"
    n_low = len(liked) - int(liked.sum())
    if n_low == len(liked):
        raise InvalidEventsError(f"no rating in {events.source} is {min_rating:g} or more; lower --min-rating.")
    return liked, f"{n_low:,} of {len(liked):,} events count as seen only: rated {rule}." if n_low else None


def _core(met: Any, min_user: int, min_item: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return who and what has enough partners that have enough themselves."""
    while True:
        of_user = np.diff(met.indptr)
        of_item = np.bincount(met.indices, minlength=met.shape[1])
        users, items = of_user >= max(min_user, 1), of_item >= max(min_item, 1)
        if users.sum() == (of_user > 0).sum() and items.sum() == (of_item > 0).sum():
            return users, items
        keep = items[met.indices] & np.repeat(users, of_user)
        starts = np.concatenate([[0], np.cumsum(keep)])[met.indptr]
        met = type(met)((met.data[keep], met.indices[keep], starts), shape=met.shape)
