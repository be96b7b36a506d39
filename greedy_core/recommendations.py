"""Recommendations for many users at once, into one parquet file: in parts, on all cores, resumed where they stopped.

    users ──► parts of them ────► one thread each: search, write, rename ──► recs.parquet.parts/part-00000.parquet ...
                                                                                  │ all there
                                                             recs.parquet ◄───────┘ one file, put in place by a rename

A part has its name only when it is complete, so after a kill the same question goes on with the parts that are missing.
plan.json beside them says which question they answer, and what `now` means in its filters. Memory is bounded by the
parts that are being worked on.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core.bundle.manifest import read_manifest
from greedy_core.bundle.opening import Bundle
from greedy_core.errors import InvalidQueryError, StorageError, first_line
from greedy_core.filters.filter import clock
from greedy_core.formats.names import missing_extra
from greedy_core.popular import popular_parts
from greedy_core.rules.applying import apply_rules
from greedy_core.rules.scenario import Scenario
from greedy_core.rules.searching import popular_with_rules, search_with_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from greedy_core.eligible import Eligible
    from greedy_core.result import SearchResult
    from greedy_core.rules.applying import AppliedRules

# The users of a part: as many parts as keep all cores busy and show how far the work is, but none that takes long.
_PART_USERS, _FEWEST_PART_USERS, _PARTS = 1 << 14, 1 << 8, 64
_PLAN, _BEGAN, _LOCK = "plan.json", "now", "lock"
_PART = "part-{}.parquet"


class Written(NamedTuple):
    """What was done: users in the file, rows of it, and how many users earlier runs had done already."""

    n_users: int
    n_rows: int
    n_resumed: int


@dataclass(frozen=True)
class Order:
    """What to recommend to whom.

    users         positions of users, in the order of the file; None: all
    budget        inner products for each user, at most
    exclude_seen  leave out what a user has seen
    scenario      its filter, rules and fallback are those of every user; its budget is not looked at
    """

    users: npt.NDArray[np.int64] | None
    top_k: int
    budget: int
    exclude_seen: bool = True
    scenario: Scenario = field(default_factory=Scenario)

    def __post_init__(self) -> None:
        if self.top_k < 1 or self.budget < self.top_k:
            raise InvalidQueryError(
                f"a budget of {self.budget} finds no {self.top_k} items: top_k is from 1 to the budget; raise it."
            )

    def n_users(self, bundle: Bundle) -> int:
        """Return how many users are recommended to."""
        return bundle.n_users if self.users is None else len(self.users)

    def part_users(self, bundle: Bundle) -> int:
        """Return how many users a part has; the same on every machine, so that another may go on."""
        return min(_PART_USERS, max(_FEWEST_PART_USERS, -(-self.n_users(bundle) // _PARTS)))

    def plan(self, bundle: Bundle) -> dict[str, Any]:
        """Return what two runs must have in common for one to go on with the parts of the other."""
        everybody = self.users is None
        return {
            "model": read_manifest(bundle.path).checksum,
            "users": "all" if everybody else hashlib.sha256(np.ascontiguousarray(self.users).tobytes()).hexdigest(),
            "top_k": self.top_k,
            "budget": self.budget,
            "exclude_seen": self.exclude_seen,
            "part_users": self.part_users(bundle),
        } | ({"scenario": said} if (said := self.scenario.to_dict()) != Scenario().to_dict() else {})


class Parts(NamedTuple):
    """Parts that are to be written, for whoever writes them, in this process or in another one.

    model    the bundle's directory, and the checksum of its manifest
    now      the time of the filters, which is the same for all parts
    folder   where the parts go
    missing  the numbers of those that are not there
    """

    model: tuple[Path, str]
    order: Order
    now: int
    folder: Path
    missing: tuple[int, ...]

    def writer(self) -> Callable[[int], int]:
        """Open the model, and return what writes a part by its number and returns that number. Raises StorageError."""
        path, checksum = self.model
        bundle = Bundle.open(path)
        if read_manifest(path).checksum != checksum:
            raise StorageError(f"{path} is another model here than where the work was given out; copy it again.")
        writer = _Writer(bundle, self.order, self.now)

        def write(number: int) -> int:
            writer.write_part(number, _part(self.folder, number))
            return number

        return write


def write_recommendations(
    bundle: Bundle,
    path: str | Path,
    order: Order,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    elsewhere: Callable[[Parts], Iterable[int]] | None = None,
) -> Written:
    """Write user_id, rank (from 1), item_id and score for every user of the order; replaces the file at the end.

    Users without a vector get the popular items, without a score. `progress` is called with (users done, users in
    all). `elsewhere` writes the parts instead of this process's threads, in any order, and yields the number of each
    that is done; the file is the same. Needs pyarrow, the extra `formats`. Raises StorageError for what cannot be
    written, and for parts of another order that lie there.
    """
    path = Path(path)
    writer = _Writer(bundle, order, clock())
    parts = path.with_name(path.name + ".parts")
    if not path.parent.is_dir():
        raise StorageError(f"{path.parent} is no directory to write {path.name} in; make it, or name another one.")
    try:
        with _alone(parts, order.plan(bundle), writer.now) as now:
            if now != writer.now:
                writer = _Writer(bundle, order, now)
            missing = [number for number in range(writer.n_parts) if not _part(parts, number).exists()]
            done = resumed = writer.n_users - sum(map(writer.size, missing))
            _tell(progress, done, writer.n_users)
            written: Iterable[int]
            if elsewhere is None:
                written = writer.write_parts(missing, parts, threads or os.cpu_count() or 1)
            else:
                model = (bundle.path.resolve(), read_manifest(bundle.path).checksum)
                given = Parts(model, order, now, parts.resolve(), tuple(missing))
                written = elsewhere(given) if missing else ()
            for number in written:
                done += writer.size(number)
                _tell(progress, done, writer.n_users)
            n_rows = writer.join([_part(parts, number) for number in range(writer.n_parts)], path)
            shutil.rmtree(parts)
    except OSError as reason:
        if isinstance(reason, StorageError):
            raise
        raise StorageError(f"{path} cannot be written: {reason.strerror or first_line(reason)}.") from None
    return Written(writer.n_users, n_rows, resumed)


class _Writer:
    """Searches for a part of the users and writes what was found. Any number of threads may do so at once."""

    def __init__(self, bundle: Bundle, order: Order, now: int) -> None:
        try:
            import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional extra
            import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415
        except ModuleNotFoundError:
            raise StorageError(missing_extra("writing parquet", "pyarrow")) from None
        self._pa, self._pq = pa, pq
        self._bundle, self._order, self.now = bundle, order, now
        scenario = order.scenario
        scenario.check(bundle.attributes)
        # Applied once for all: a night's work has one time.
        self._let_through = {text: bundle.filter(text, now) for _, text in scenario.filters()}
        self._eligible = None if scenario.filter is None else self._let_through[scenario.filter]
        self._standing_in = self._eligible
        if scenario.fallback is not None and scenario.fallback.filter is not None:
            both = [scenario.fallback.filter] + ([] if scenario.filter is None else [scenario.filter])
            self._standing_in = bundle.filter(" and ".join(f"({text})" for text in both), now)
        self.n_users, self._part_users = order.n_users(bundle), order.part_users(bundle)
        self.n_parts = -(-self.n_users // self._part_users)
        if self.n_users == 0:
            raise InvalidQueryError(f"there are no users to recommend to in {bundle.path}; give users of the model.")
        self._schema = pa.schema(
            [("user_id", pa.string()), ("rank", pa.int32()), ("item_id", pa.string()), ("score", pa.float32())]
        )

    def size(self, number: int) -> int:
        """Return how many users a part has."""
        return min(self._part_users, self.n_users - number * self._part_users)

    def write_parts(self, numbers: Sequence[int], folder: Path, threads: int) -> Iterator[int]:
        """Write parts in threads, and yield the number of each that is done, in their order."""
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(self.write_part, number, _part(folder, number)) for number in numbers]
            try:
                for number, future in zip(numbers, futures, strict=True):
                    future.result()
                    yield number
            finally:
                pool.shutdown(cancel_futures=True)

    def write_part(self, number: int, path: Path) -> None:
        """Search for the users of a part and write them, all or nothing."""
        start = number * self._part_users
        span = np.arange(start, start + self.size(number))
        users = span if self._order.users is None else self._order.users[span]
        temporary = path.with_name(f".{path.name}.writing")
        self._pq.write_table(self._table(users), temporary, compression="zstd")
        _put_in_place(temporary, path)

    def join(self, parts: list[Path], path: Path) -> int:
        """Copy the parts into one file, a row group for each, and put it in place; return its number of rows."""
        temporary, n_rows = path.with_name(f".{path.name}.writing"), 0
        try:
            with self._pq.ParquetWriter(temporary, self._schema, compression="zstd") as file:
                for part in parts:
                    table = self._read_part(part)
                    file.write_table(table, row_group_size=max(1, len(table)))
                    n_rows += len(table)
            _put_in_place(temporary, path)
        finally:
            # What was put in place has this name no more; what could not be finished takes no room.
            temporary.unlink(missing_ok=True)
        return n_rows

    def _read_part(self, part: Path) -> Any:
        try:
            return self._pq.read_table(part)
        except self._pa.ArrowException:
            raise StorageError(f"{part} is damaged; remove it, and ask again to go on.") from None

    def _table(self, users: npt.NDArray[np.int64]) -> Any:
        found = self._search(users)
        counts = np.array([len(items) for items, _ in found])
        items = np.concatenate([items for items, _ in found])
        scores = np.concatenate([scores for _, scores in found])
        ranks = np.arange(len(items)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        # Each id is made text once for all the rows that have it.
        distinct, where = np.unique(items, return_inverse=True)
        pa, bundle = self._pa, self._bundle
        columns = [
            pa.array(bundle.user_ids(users), pa.string()).take(pa.array(np.repeat(np.arange(len(users)), counts))),
            pa.array(ranks.astype(np.int32)),
            pa.array(bundle.item_ids(distinct), pa.string()).take(pa.array(where)),
            pa.array(scores, mask=np.isnan(scores)),
        ]
        return pa.table(columns, schema=self._schema)

    def _search(self, users: npt.NDArray[np.int64]) -> list[tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]]:
        """Return the items and scores of each user; popular items have NaN for a score."""
        bundle, order = self._bundle, self._order
        seen = [bundle.seen_items(user) if order.exclude_seen else _NOTHING for user in users.tolist()]
        known = [at for at, user in enumerate(users.tolist()) if bundle.user_vector(user) is not None]
        answers: dict[int, tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]] = {}
        if known and bundle.user_vectors is not None:
            asked = users[known]
            # Remembered are the best of what a user has not seen.
            is_good = order.exclude_seen or not bundle.has_seen
            hints = [bundle.user_remembered(user) if is_good else None for user in asked.tolist()]
            excluded = [seen[at] for at in known]
            if order.scenario.rules:
                results = [
                    self._search_ruled(bundle.user_vectors[user], met, hint)
                    for user, met, hint in zip(asked.tolist(), excluded, hints, strict=True)
                ]
            else:
                results = bundle.index.search_batch(
                    bundle.user_vectors[asked],
                    order.top_k,
                    order.budget,
                    exclude=excluded,
                    remembered=hints,
                    eligible=self._eligible,
                )
            answers = {at: (result.ids, result.scores) for at, result in zip(known, results, strict=True)}
        return [answers.get(at) or self._popular(met) for at, met in enumerate(seen)]

    def _search_ruled(
        self, vector: npt.NDArray[np.float32], seen: npt.NDArray[np.int32], hint: npt.NDArray[np.int32] | None
    ) -> SearchResult:
        bundle, order = self._bundle, self._order
        return search_with_rules(
            bundle.index,
            vector,
            self._applied(seen, self._eligible),
            top_k=order.top_k,
            budget=order.budget,
            exclude=seen,
            remembered=hint,
            eligible=self._eligible,
            more=popular_parts(bundle.popular, seen, self._eligible),
        ).result

    def _applied(self, seen: npt.NDArray[np.int32], eligible: Eligible | None) -> AppliedRules:
        bundle = self._bundle
        return apply_rules(
            self._order.scenario.rules,
            bundle.attributes,
            bundle.item_positions,
            self._let_through.__getitem__,
            excluded=seen,
            eligible=eligible,
            products=bundle.index.products,
        )

    def _popular(self, seen: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return what somebody without a vector gets: popular items, or nothing where that is an error."""
        scenario, eligible = self._order.scenario, self._standing_in
        top_k = 0 if scenario.fallback is not None and scenario.fallback.kind == "error" else self._order.top_k
        items = popular_with_rules(
            self._bundle.popular, self._applied(seen, eligible), top_k=top_k, excluded=seen, eligible=eligible
        ).ids
        return items, np.full(len(items), np.nan, dtype=np.float32)


def _part(parts: Path, number: int) -> Path:
    return parts / _PART.format(f"{number:05d}")


def _write_plan(place: Path, plan: dict[str, Any]) -> None:
    temporary = place.with_suffix(".writing")
    temporary.write_text(json.dumps(plan), encoding="utf-8")
    _put_in_place(temporary, place)


def _put_in_place(temporary: Path, path: Path) -> None:
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def _tell(progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)


@contextmanager
def _alone(parts: Path, plan: dict[str, Any], now: int) -> Iterator[int]:
    """Keep two runs off the same parts, and a run off the parts of another order; yield the time when these began.

    now  the time that it is, for parts that begin now
    """
    parts.mkdir(exist_ok=True)
    place = parts / _PLAN
    with (parts / _LOCK).open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(f"another process is writing {parts}; wait for it, or name another file.") from None
        stored = _parsed(place.read_text(encoding="utf-8")) if place.exists() else None
        began = stored.pop(_BEGAN, now) if isinstance(stored, dict) else now
        # A plan is in place before its first part is: parts without one are of nobody knows what.
        if stored != plan and (stored is not None or any(parts.glob(_PART.format("*")))):
            raise StorageError(
                f"{parts} holds unfinished recommendations of another model, budget, top_k or list of users; ask the "
                "same again to finish them, or remove the folder."
            )
        if stored is None:
            _write_plan(place, plan | {_BEGAN: began})
        yield began


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


_NOTHING = np.empty(0, dtype=np.int32)
