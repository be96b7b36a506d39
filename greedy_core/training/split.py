"""What is held out to measure by: the last part in time, each user's last item, or any one item of each user.

The training part never holds a pair that is held out, and where there are times, nothing of a user that came later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.errors import InvalidEventsError

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.training.interactions import Interactions

# This share of the events is held out by time.
_LATEST = 0.1
# Fewer users than this, and than this share of all, say too little: then each user's last item is held out instead.
_ENOUGH_USERS, _ENOUGH_SHARE = 50, 0.02


@dataclass(frozen=True)
class Split:
    """A training part and what was held out, both users x items in CSR form with sorted indices.

    held_out  pairs that are not in the training part, of users and items that are
    users     who has something held out, ascending
    how       one sentence
    """

    training: Any
    held_out: Any
    users: npt.NDArray[np.int64]
    how: str


def split(interactions: Interactions, *, seed: int) -> Split:
    """Hold some interactions out; deterministic for a seed. Raises InvalidEventsError if nobody has two items."""
    made = _split(interactions, seed)
    if len(made.users) == 0:
        raise InvalidEventsError(
            "no user has two items of which one could be held out, so the quality cannot be measured; give more "
            "interactions, or train with --no-quality."
        )
    return made


def _split(interactions: Interactions, seed: int) -> Split:
    """Split without a look at whether there is anybody to ask."""
    if interactions.times is None:
        return _one_of_each(interactions, seed)
    made = _after_a_cut(interactions, interactions.times)
    if made is not None and len(made.users) >= max(_ENOUGH_USERS, _ENOUGH_SHARE * interactions.n_users):
        return made
    made = _last_of_each(interactions, interactions.times)
    # Where all end with the same item, nobody has it any more when it is held out.
    return made if len(made.users) else _one_of_each(interactions, seed)


def _after_a_cut(interactions: Interactions, times: npt.NDArray[Any]) -> Split | None:
    cut = np.partition(times, int(len(times) * (1 - _LATEST)))[int(len(times) * (1 - _LATEST))]
    # What happened at the very moment of the cut is held out: the training part ends before it.
    early = times < cut
    if not early.any():
        return None
    return _made(
        interactions,
        early,
        ~early,
        f"trained on what happened before {_moment(cut)}, asked for what happened from then on",
    )


def _last_of_each(interactions: Interactions, times: npt.NDArray[Any]) -> Split:
    """Hold out the item that each user met last for the first time, and all that the user did afterwards."""
    users, items = interactions.users, interactions.items
    order = np.lexsort((items, times, users))
    pair = users[order].astype(np.int64) * interactions.n_items + items[order]
    # The first event of each pair, and of these the last of each user.
    first = order[np.sort(np.unique(pair, return_index=True)[1])]
    last = np.flatnonzero(np.append(users[first][1:] != users[first][:-1], True))
    several = np.bincount(users[first], minlength=interactions.n_users) > 1
    chosen = first[last]
    chosen = chosen[several[users[chosen]]]
    item_of, time_of = np.full(interactions.n_users, -1), np.zeros(interactions.n_users, dtype=times.dtype)
    item_of[users[chosen]], time_of[users[chosen]] = items[chosen], times[chosen]
    tested = item_of[users] >= 0
    early = ~tested | ((times <= time_of[users]) & (items != item_of[users]))
    late = tested & (items == item_of[users])
    return _made(interactions, early, late, "trained without each user's last new item, asked for that item")


def _one_of_each(interactions: Interactions, seed: int) -> Split:
    matrix = interactions.matrix()
    counts = np.diff(matrix.indptr)
    tested = np.flatnonzero(counts > 1)
    drawn = (np.random.default_rng(seed).random(len(tested)) * counts[tested]).astype(np.int64)
    at = matrix.indptr[tested].astype(np.int64) + drawn
    chosen = np.zeros(matrix.nnz, dtype=bool)
    chosen[at] = True
    how = f"trained without one item of each user, drawn with seed {seed}, and asked for that item"
    return _checked(_entries(matrix, ~chosen), _entries(matrix, chosen), how)


def _made(interactions: Interactions, early: npt.NDArray[np.bool_], late: npt.NDArray[np.bool_], how: str) -> Split:
    training, later = interactions.matrix(early), interactions.matrix(late)
    known = later.tocoo()
    old = _is_in(training, known.row, known.col)
    return _checked(training, _entries(later, ~old), how)


def _checked(training: Any, held_out: Any, how: str) -> Split:
    """Keep of what is held out only users and items that the training part has: no model could know of others."""
    users = np.diff(training.indptr) > 0
    items = np.bincount(training.indices, minlength=training.shape[1]) > 0
    entries = held_out.tocoo()
    held_out = _entries(held_out, users[entries.row] & items[entries.col])
    tested = np.flatnonzero(np.diff(held_out.indptr))
    return Split(training, held_out, tested, how)


def _entries(matrix: Any, keep: npt.NDArray[np.bool_]) -> Any:
    starts = np.concatenate([[0], np.cumsum(keep)])[matrix.indptr]
    return type(matrix)((matrix.data[keep], matrix.indices[keep], starts), shape=matrix.shape)


def _is_in(matrix: Any, rows: npt.NDArray[Any], columns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return whether each pair is an entry of the matrix, whose indices are sorted."""
    n_columns = matrix.shape[1]
    entries = matrix.tocoo()
    keys = entries.row.astype(np.int64) * n_columns + entries.col
    wanted = rows.astype(np.int64) * n_columns + columns
    at = np.searchsorted(keys, wanted)
    found: npt.NDArray[np.bool_] = keys[np.minimum(at, len(keys) - 1)] == wanted
    return found


def _moment(time: Any) -> str:
    return str(time.astype("datetime64[s]")) if isinstance(time, np.datetime64) else f"{time}"
