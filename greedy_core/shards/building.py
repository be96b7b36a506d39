"""Building shards: one set of vectors -> several ordinary bundles, and what is kept once.

    all items ──► dealing ──┬─► axes, centre of the codes: fitted once
                            ├─► shard-0000: chooses directions and screening for all ──┐
                            ├─► shard-0001, ...: built as the first one, by themselves ┤
                            └─► what is kept once: ids, titles, users, curves ◄────────┘

A shard is built from its own items and from what was fitted once, so that the next one can be built in another process
or on another machine, and the memory of one is enough for all.
"""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from greedy_core.bundle.opening import Bundle
from greedy_core.bundle.version_names import check_version_name
from greedy_core.bundle.writing import write_bundle
from greedy_core.embeddings import UserVectors, as_embeddings, as_user_vectors
from greedy_core.errors import InvalidEmbeddingsError, StorageError
from greedy_core.exact import ExactIndex
from greedy_core.fit.calibration import calibrate
from greedy_core.fit.directions import Axes
from greedy_core.fit.trial import hold_out
from greedy_core.index import GreedyIndex, Whole
from greedy_core.shards.index import AnyIndex, ShardedIndex
from greedy_core.shards.places import Places, deal
from greedy_core.similar import SimilarItems, whole_at_unit_length

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.attributes.table import Attributes
    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.directions import Kind
    from greedy_core.fold_in import FoldIn
    from greedy_core.precision import Precision
    from greedy_core.quality import Quality

_BLOCK_ROWS = 1 << 16
# The walks of a shard are fitted to as many users as a whole index would look at.
_MOST_QUERIES = 100_000


@dataclass(frozen=True)
class ShardOrder:
    """All that one shard is built from. It can be sent to another process: nothing in it is open.

    like     the bundle of the shard that chose for all; None: this one chooses
    whole    what was fitted once; `similar` the same for items at unit length, None if these need no index of their own
    """

    path: Path
    items: Float32Array
    item_ids: list[str]
    queries: Float32Array | None
    directions: Kind
    max_budget: int
    precision: Precision
    with_similar: bool
    whole: Whole
    similar: Whole | None
    like: Path | None
    threads: int | None
    progress: bool


def build_shard(order: ShardOrder) -> None:
    """Build one shard and write its bundle; one that is there already was written whole, and is left as it is."""
    if order.path.exists():
        return
    like = None if order.like is None else Bundle.open(order.like)
    queries = None if order.queries is None else UserVectors(order.queries, None)
    if like is None:
        index = GreedyIndex.build(
            order.items,
            queries=queries,
            directions=order.directions,
            max_budget=order.max_budget,
            threads=order.threads,
            progress=order.progress,
            precision=order.precision,
            whole=order.whole,
        )
    else:
        index = _greedy(like.index).of_others(
            order.items, queries, centre=order.whole.centre, threads=order.threads, progress=order.progress
        )
    by_cosine = None
    if order.with_similar:
        by_cosine = SimilarItems.build(
            index,
            directions=order.directions,
            calibrated=False,
            threads=order.threads,
            progress=order.progress,
            whole=order.similar,
            like=None if like is None else like.similar,
        )
    write_bundle(order.path, index=index, item_ids=order.item_ids, similar=by_cosine)


def build_one_by_one(orders: Iterable[ShardOrder]) -> None:
    """Build shards one after the other."""
    for order in orders:
        build_shard(order)


def build_shards(
    path: str | Path,
    n_shards: int,
    *,
    items: npt.ArrayLike,
    users: npt.ArrayLike | UserVectors | None = None,
    item_ids: Sequence[object] | None = None,
    user_ids: Sequence[object] | None = None,
    titles: Sequence[str | None] | None = None,
    seen: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    popular: npt.ArrayLike | None = None,
    attributes: Attributes | None = None,
    quality: Quality | None = None,
    directions: Kind = "auto",
    max_budget: int = 4096,
    fold_in: FoldIn | None = None,
    similar: bool = True,
    metadata: Mapping[str, Any] | None = None,
    version: str | None = None,
    calibrated: bool = True,
    threads: int | None = None,
    progress: bool = False,
    precision: Precision = "float32",
    like: Bundle | None = None,
    build: Callable[[Iterable[ShardOrder]], None] = build_one_by_one,
) -> Bundle:
    """Build a bundle whose index lies in shards; the arguments are those of `build_bundle`.

    like   a bundle of the same items, whose axes and screening are taken as they are
    build  builds shards by their orders, wherever it likes; it gets them one at a time, as it asks for them

    Raises InvalidEmbeddingsError for parts that do not fit together, StorageError if `path` exists.
    """
    path = Path(path)
    check_version_name(path.name)
    if os.path.lexists(path):
        raise StorageError(f"{path} already exists and models are never overwritten; choose another name.")
    began = perf_counter()
    vectors = as_embeddings(items, name="items")
    checked = users if users is None or isinstance(users, UserVectors) else as_user_vectors(users)
    for what, given in (("item ids", item_ids), ("titles", titles)):
        if given is not None and len(given) != len(vectors):
            raise InvalidEmbeddingsError(f"there are {len(given)} {what} for {len(vectors)} items; give one for each.")
    known = None if checked is None or len(checked.of_known) == 0 else hold_out(checked.of_known)
    queries = None
    if known is not None and checked is not None:
        queries = known.fitted if calibrated else checked.of_known
    places = Places.of(deal(vectors, n_shards), n_shards)
    work = path.parent / f".{path.name}.shards-{os.getpid()}-{threading.get_ident()}"
    try:
        work.mkdir(parents=True)
        plan = _Plan(vectors, places, item_ids, queries, work, like)
        orders = plan.orders(
            directions=directions,
            max_budget=max_budget,
            precision=precision,
            similar=similar,
            threads=threads,
            progress=progress,
        )
        first = next(orders)
        build_shard(first)
        build(orders)
        shards = [Bundle.open(plan.place(number)) for number in range(n_shards)]
        index = ShardedIndex([_greedy(shard.index) for shard in shards], places)
        calibration = None
        if known is not None and calibrated:
            calibration = calibrate(
                index,
                known.sample,
                held_out=known.separate,
                seconds=perf_counter() - began,
                progress=progress,
                exact=None if precision == "float32" else ExactIndex.build(vectors),
            ).to_dict()
        by_cosine = None
        if similar:
            found = [shard.similar for shard in shards if shard.similar is not None]
            shared = found[0].shared
            own = index if shared else ShardedIndex([_greedy(each.index) for each in found], places)
            by_cosine = SimilarItems.of_shards(own, vectors, shared=shared, calibrated=calibrated, progress=progress)
        return write_bundle(
            path,
            index=index,
            item_ids=item_ids,
            user_vectors=checked,
            user_ids=user_ids,
            titles=titles,
            seen=seen,
            popular=popular,
            attributes=attributes,
            quality=quality,
            calibration=calibration,
            fold_in=fold_in,
            similar=by_cosine,
            metadata=metadata,
            version=version,
            progress=progress,
            shards=[plan.place(number) for number in range(n_shards)],
        )
    except OSError as reason:
        if isinstance(reason, StorageError):
            raise
        raise StorageError(f"{path} cannot be written: {reason.strerror or reason}.") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def shard_bundle(
    bundle: Bundle,
    path: str | Path,
    n_shards: int,
    *,
    version: str | None = None,
    threads: int | None = None,
    progress: bool = False,
    build: Callable[[Iterable[ShardOrder]], None] = build_one_by_one,
) -> Bundle:
    """Split a bundle into shards: what was learned when it was built is kept, and curves are measured anew."""
    if bundle.shards:
        raise InvalidEmbeddingsError(
            f"{bundle.path} has {len(bundle.shards)} shards already; give the bundle that it was made of."
        )
    index = _greedy(bundle.index)
    return build_shards(
        path,
        n_shards,
        items=index.items,
        directions=cast("Kind", index.directions),
        max_budget=index.max_budget,
        precision=index.precision,
        similar=bundle.similar is not None,
        calibrated=bundle.calibration is not None,
        version=bundle.version if version is None else version,
        threads=threads,
        progress=progress,
        like=bundle,
        build=build,
        **bundle.parts(),
    )


class _Plan:
    """Writes the orders of all shards, each when it is asked for."""

    def __init__(
        self,
        items: Float32Array,
        places: Places,
        item_ids: Sequence[object] | None,
        queries: Float32Array | None,
        work: Path,
        like: Bundle | None,
    ) -> None:
        self._items = items
        self._places = places
        self._ids = item_ids
        self._queries = queries
        self._work = work
        self._like = like

    def place(self, number: int) -> Path:
        """Return where a shard is written."""
        return self._work / f"shard-{number:04d}"

    def orders(
        self,
        *,
        directions: Kind,
        max_budget: int,
        precision: Precision,
        similar: bool,
        threads: int | None,
        progress: bool,
    ) -> Iterator[ShardOrder]:
        """Yield the order of each shard; the first one chooses, unless another bundle has chosen before."""
        total = np.zeros(self._items.shape[1])
        for start in range(0, len(self._items), _BLOCK_ROWS):
            total += self._items[start : start + _BLOCK_ROWS].sum(axis=0, dtype=np.float64)
        whole = Whole(Axes(self._items, self._queries), (total / len(self._items)).astype(np.float32))
        of_similar = whole_at_unit_length(self._items, precision) if similar else None
        queries = None if self._queries is None else self._queries[:_MOST_QUERIES]
        for number in range(self._places.n_shards):
            mine = self._places.in_shard(number)
            like = self.place(0) if self._like is None else self._like.path
            chooses = self._like is None and number == 0
            yield ShardOrder(
                path=self.place(number),
                items=np.ascontiguousarray(self._items[mine]),
                item_ids=[str(position if self._ids is None else self._ids[position]) for position in mine.tolist()],
                queries=queries,
                directions=directions,
                max_budget=max_budget,
                precision=precision,
                with_similar=similar,
                whole=whole if chooses else whole._replace(axes=None),
                similar=of_similar if chooses or of_similar is None else of_similar._replace(axes=None),
                like=None if chooses else like,
                threads=threads,
                progress=progress,
            )


def _greedy(index: AnyIndex) -> GreedyIndex:
    if not isinstance(index, GreedyIndex):
        raise InvalidEmbeddingsError("a shard cannot have shards itself; give the bundle that it was made of.")
    return index
