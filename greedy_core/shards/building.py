"""Building shards: one set of vectors -> several ordinary bundles, and what is kept once.

    all items ──► dealing ──┬─► axes, centre of the codes: fitted once
                            ├─► shard-0000: chooses directions and screening for all ──┐
                            ├─► a map of all items, if it chose a walk ────────────────┤
                            ├─► shard-0001, ...: built as the first one, by themselves ┤
                            └─► what is kept once: ids, titles, users, curves ◄────────┘

A shard is built from its own items and from what was fitted once, so that the next one can be built in another process
or on another machine, and the memory of one is enough for all. The map is the exception: it takes what the graph of one
index would, and the shards have no graphs then.
"""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

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
from greedy_core.shards.item_map import ItemMap
from greedy_core.shards.places import Places, deal
from greedy_core.similar import SimilarItems, at_unit_length, whole_at_unit_length

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


class Mapped(NamedTuple):
    """Of which items there is a map."""

    items: bool
    similar: bool


@dataclass(frozen=True)
class ShardOrder:
    """All that one shard is built from. It can be sent to another process: nothing in it is open.

    like     the bundle of the shard that chose for all; None: this one chooses
    mapped   whether there is a map of all items, and one of all at unit length: these have no graphs here
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
    mapped: Mapped
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
        index = _built_as(_greedy(like.index), mapped=order.mapped.items).of_others(
            order.items, queries, centre=order.whole.centre, threads=order.threads, progress=order.progress
        )
    by_cosine = None
    if order.with_similar:
        of_others = None if like is None else like.similar
        if of_others is not None:
            of_others = of_others.searched_by(_built_as(_greedy(of_others.index), mapped=order.mapped.similar))
        by_cosine = SimilarItems.build(
            index,
            directions=order.directions,
            calibrated=False,
            threads=order.threads,
            progress=order.progress,
            whole=order.similar,
            like=of_others,
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
        plan = _Plan(
            vectors,
            places,
            queries,
            work,
            precision=precision,
            similar=similar,
            threads=threads,
            progress=progress,
        )
        orders = plan.orders(item_ids, like, directions, max_budget)
        if like is None:
            build_shard(next(orders))
            plan.draw_maps()
        else:
            plan.copy_maps(like)
        build(orders)
        shards = [Bundle.open(plan.place(number)) for number in range(n_shards)]
        index = ShardedIndex([_greedy(shard.index) for shard in shards], places, plan.map)
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
            own = (
                index if shared else ShardedIndex([_greedy(each.index) for each in found], places, plan.map_of_similar)
            )
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
    """What is learned of all items, once, and the orders of all shards, each when it is asked for."""

    def __init__(
        self,
        items: Float32Array,
        places: Places,
        queries: Float32Array | None,
        work: Path,
        *,
        precision: Precision,
        similar: bool,
        threads: int | None,
        progress: bool,
    ) -> None:
        self._items = items
        self._places = places
        self._queries = None if queries is None else queries[:_MOST_QUERIES]
        self._work = work
        self._precision: Precision = precision
        self._threads = threads
        self._progress = progress
        total = np.zeros(items.shape[1])
        for start in range(0, len(items), _BLOCK_ROWS):
            total += items[start : start + _BLOCK_ROWS].sum(axis=0, dtype=np.float64)
        self._whole = Whole(Axes(items, queries), (total / len(items)).astype(np.float32))
        self._similar = whole_at_unit_length(items, precision) if similar else None
        self._with_similar = similar
        self.map: ItemMap | None = None
        self.map_of_similar: ItemMap | None = None

    def place(self, number: int) -> Path:
        """Return where a shard is written."""
        return self._work / f"shard-{number:04d}"

    def copy_maps(self, whole: Bundle) -> None:
        """Take the graphs of a bundle of the same items, where it walks."""
        self.map = _map_of(_greedy(whole.index))
        if self._similar is not None and whole.similar is not None:
            self.map_of_similar = _map_of(_greedy(whole.similar.index))

    def draw_maps(self) -> None:
        """Draw a map of all items if the first shard walks, and leave it its lists; the others follow it in that."""
        first = Bundle.open(self.place(0))
        index = _greedy(first.index)
        self.map = self._drawn_like(index, self._items, self._queries, self._whole)
        similar = first.similar
        if similar is not None and self._similar is not None:
            unit, _ = at_unit_length(self._items, self._precision)
            of_similar = _greedy(similar.index)
            self.map_of_similar = self._drawn_like(of_similar, unit, None, self._similar)
            similar = similar.searched_by(_built_as(of_similar, mapped=self.map_of_similar is not None))
        elif similar is not None:
            similar = similar.searched_by(_built_as(index, mapped=self.map is not None))
        if self.map is None and self.map_of_similar is None:
            return
        again = self._work / "again"
        write_bundle(
            again,
            index=_built_as(index, mapped=self.map is not None),
            item_ids=first.item_ids(range(first.n_items)),
            similar=similar,
            version=first.version,
        )
        shutil.rmtree(first.path)
        again.rename(first.path)

    def _drawn_like(
        self, index: GreedyIndex, items: Float32Array, queries: Float32Array | None, whole: Whole
    ) -> ItemMap | None:
        """Return a map of all items, built as the index of some was, or None if that one does not walk."""
        if index.screening.variant != "walk":
            return None
        drawn = index.of_others(items, queries, centre=whole.centre, threads=self._threads, progress=self._progress)
        return _map_of(drawn)

    def orders(
        self, item_ids: Sequence[object] | None, like: Bundle | None, directions: Kind, max_budget: int
    ) -> Iterator[ShardOrder]:
        """Yield the order of each shard; the first one chooses, unless another bundle has chosen before."""
        for number in range(self._places.n_shards):
            mine = self._places.in_shard(number)
            chooses = like is None and number == 0
            chosen = self.place(0) if like is None else like.path
            without_axes = None if self._similar is None else self._similar._replace(axes=None)
            yield ShardOrder(
                path=self.place(number),
                items=np.ascontiguousarray(self._items[mine]),
                item_ids=[str(position if item_ids is None else item_ids[position]) for position in mine.tolist()],
                queries=self._queries,
                directions=directions,
                max_budget=max_budget,
                precision=self._precision,
                with_similar=self._with_similar,
                whole=self._whole if chooses else self._whole._replace(axes=None),
                similar=self._similar if chooses else without_axes,
                like=None if chooses else chosen,
                mapped=Mapped(self.map is not None, self.map_of_similar is not None),
                threads=self._threads,
                progress=self._progress,
            )


def _map_of(index: GreedyIndex) -> ItemMap | None:
    """Return the map of an index over all items; one that does not walk needs none."""
    return ItemMap.of(index) if index.screening.variant == "walk" else None


def _built_as(index: GreedyIndex, *, mapped: bool) -> GreedyIndex:
    """Return what a shard has of an index like this one: no graph, where there is a map."""
    return index.without_graph() if mapped else index


def _greedy(index: AnyIndex) -> GreedyIndex:
    if not isinstance(index, GreedyIndex):
        raise InvalidEmbeddingsError("a shard cannot have shards itself; give the bundle that it was made of.")
    return index
