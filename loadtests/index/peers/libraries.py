"""The libraries that our index is compared with: one class each, one instance for each way to build it.

Builds may use all cores; searches are one query at a time on one thread. A build that is slower than its limit is given
up and reported. What was built is kept, so that a second run on the same vectors only searches.
"""
# ruff: noqa: D102 - the methods are documented where Peer declares them

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import math
import os
import re
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from loadtests.index.peers.contestants import TOP_K, Contestant, Setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

CACHE = Path(__file__).resolve().parents[3] / ".cache" / "peers"
EFS = (10, 16, 25, 40, 60, 100, 160, 250, 400, 600, 800, 1200, 1600)
# Graphs grow by blocks, so that a build can be given up in time.
BLOCK = 2_000


class TooSlowError(Exception):
    """A build did not end within its limit."""


class Peer(ABC):
    """One library with one set of build options. After `build` or `load`, `settings` searches it."""

    family: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str]
    index: Any

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.name = " ".join([self.family, *(f"{key}={value}" for key, value in options.items())])

    @property
    def library(self) -> Any:
        """The imported module; ImportError if it is not there."""
        return importlib.import_module(self.module)

    @abstractmethod
    def build(self, items: Floats, deadline: float) -> None:
        """Build `index`; raise TooSlowError once time.monotonic() has passed `deadline`, where that is possible."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the index into a folder that exists."""

    @abstractmethod
    def load(self, folder: Path, n_dims: int) -> None:
        """Read what `save` wrote."""

    @abstractmethod
    def settings(self) -> list[Setting]:
        """Return the grid, least effort first."""

    def grow(self, n_items: int, deadline: float, add: Callable[[int, int], None]) -> None:
        """Add all items in blocks."""
        for start in range(0, n_items, BLOCK):
            if time.monotonic() > deadline:
                raise TooSlowError(f"{start:,} of {n_items:,} items were in when the limit was reached")
            add(start, min(start + BLOCK, n_items))


class ScaNN(Peer):
    """Partitions, anisotropic quantisation, exact reordering.

    With `soar`, every item is in two partitions; `block` is how many dimensions share a code, 2 unless given.
    """

    family, module, package = "ScaNN", "scann", "scann"

    def build(self, items: Floats, deadline: float) -> None:  # noqa: ARG002 - it cannot be stopped half way
        builder = self.library.scann_ops_pybind.builder(items, TOP_K, "dot_product")
        soar = {"soar_lambda": 1.5, "overretrieve_factor": 2.0} if self.options["soar"] else {}
        leaves = self.options["leaves"]
        tree = builder.tree(leaves, max(1, leaves // 10), training_sample_size=min(len(items), 250_000), **soar)
        self.index = (
            tree.score_ah(self.options.get("block", 2), anisotropic_quantization_threshold=0.2).reorder(100).build()
        )

    def save(self, folder: Path) -> None:
        self.index.serialize(str(folder), relative_path=True)

    def load(self, folder: Path, n_dims: int) -> None:  # noqa: ARG002
        self.index = self.library.scann_ops_pybind.load_searcher(str(folder))

    def settings(self) -> list[Setting]:
        leaves = self.options["leaves"]
        few = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 320, 500)
        searched = [*(number for number in few if number < leaves), leaves]
        return [self._setting(n, reorder) for n in searched for reorder in (20, 40, 80, 150, 300, 600, 1000)]

    def _setting(self, leaves: int, reorder: int) -> Setting:
        search = self.index.search
        return Setting(
            f"search={leaves} reorder={reorder}", lambda query: search(query, TOP_K, reorder, leaves), _first
        )


class HnswlibIp(Peer):
    """The graph on raw inner products."""

    family, module, package = "hnswlib ip", "hnswlib", "hnswlib"
    space = "ip"

    def build(self, items: Floats, deadline: float) -> None:
        items = self.transformed(items)
        self.index = self.library.Index(self.space, items.shape[1])
        self.index.init_index(len(items), ef_construction=200, M=self.options["M"])
        self.grow(len(items), deadline, lambda i, j: self.index.add_items(items[i:j], np.arange(i, j)))

    def transformed(self, items: Floats) -> Floats:
        return items

    def save(self, folder: Path) -> None:
        self.index.save_index(str(folder / "graph"))

    def load(self, folder: Path, n_dims: int) -> None:
        self.index = self.library.Index(self.space, n_dims)
        self.index.load_index(str(folder / "graph"))

    def settings(self) -> list[Setting]:
        self.index.set_num_threads(1)
        return [Setting(f"ef={ef}", self.asked(), _first, lambda ef=ef: self.index.set_ef(ef)) for ef in EFS]

    def asked(self) -> Callable[[Floats], Any]:
        ask = self.index.knn_query
        return lambda query: ask(query, TOP_K)


class HnswlibL2(HnswlibIp):
    """The graph on vectors with one more coordinate, which makes all items equally long and L2 rank as they do."""

    family = "hnswlib L2"
    space = "l2"

    def transformed(self, items: Floats) -> Floats:
        squares = np.einsum("jt,jt->j", items, items)
        return np.column_stack([items, np.sqrt(squares.max() - squares)]).astype(np.float32)

    def load(self, folder: Path, n_dims: int) -> None:
        super().load(folder, n_dims + 1)

    def asked(self) -> Callable[[Floats], Any]:
        ask, longer = self.index.knn_query, np.zeros(self.index.dim, dtype=np.float32)

        def search(query: Floats) -> Any:
            longer[:-1] = query
            return ask(longer, TOP_K)

        return search


class _Faiss(Peer):
    module, package = "faiss", "faiss-cpu"

    def build(self, items: Floats, deadline: float) -> None:
        self.library.omp_set_num_threads(os.cpu_count() or 1)
        try:
            self.fill(items, deadline)
        finally:
            self.library.omp_set_num_threads(1)

    @abstractmethod
    def fill(self, items: Floats, deadline: float) -> None:
        """Make `index`."""

    def save(self, folder: Path) -> None:
        self.library.write_index(self.index, str(folder / "index"))

    def load(self, folder: Path, n_dims: int) -> None:  # noqa: ARG002
        self.library.omp_set_num_threads(1)
        self.index = self.library.read_index(str(folder / "index"))

    def asked(self, label: str, prepare: Callable[[], None]) -> Setting:
        search = self.index.search
        return Setting(label, lambda query: search(query[None], TOP_K), _second_row, prepare)


class FaissIvfFlat(_Faiss):
    """Partitions, exact products inside."""

    family = "faiss IVFFlat"

    def fill(self, items: Floats, deadline: float) -> None:  # noqa: ARG002
        faiss, n_dims = self.library, items.shape[1]
        self.index = faiss.IndexIVFFlat(
            faiss.IndexFlatIP(n_dims), n_dims, self.options["lists"], faiss.METRIC_INNER_PRODUCT
        )
        self.index.train(items)
        self.index.add(items)

    def settings(self) -> list[Setting]:
        probes = [1 << p for p in range(11) if 1 << p <= self.options["lists"]]
        return [self.asked(f"nprobe={n}", lambda n=n: setattr(self.index, "nprobe", n)) for n in probes]


class FaissFastScan(_Faiss):
    """Partitions, 4-bit product quantisation in registers, exact refinement."""

    family = "faiss IVF-PQ"

    def fill(self, items: Floats, deadline: float) -> None:  # noqa: ARG002
        faiss, n_dims = self.library, items.shape[1]
        lists, metric = self.options["lists"], faiss.METRIC_INNER_PRODUCT
        parts = max(count for count in range(1, max(1, n_dims // 2) + 1) if n_dims % count == 0)
        base = faiss.IndexIVFPQFastScan(faiss.IndexFlatIP(n_dims), n_dims, lists, parts, 4, metric)
        self.index = faiss.IndexRefineFlat(base)
        self.index.train(items)
        self.index.add(items)
        self._base = base  # the refining index does not keep it alive

    def settings(self) -> list[Setting]:
        base = self.library.downcast_index(self.index.base_index)
        probes = [1 << p for p in range(11) if 1 << p <= self.options["lists"]]

        def prepared(probe: int, factor: int) -> Callable[[], None]:
            def prepare() -> None:
                base.nprobe = probe
                self.index.k_factor = factor

            return prepare

        return [
            self.asked(f"nprobe={probe} refine={factor * TOP_K}", prepared(probe, factor))
            for probe in probes
            for factor in (2, 5, 10, 30, 100)
        ]


class FaissHnsw(_Faiss):
    """The graph on raw inner products."""

    family = "faiss HNSW"

    def fill(self, items: Floats, deadline: float) -> None:
        faiss = self.library
        self.index = faiss.IndexHNSWFlat(items.shape[1], self.options["M"], faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = 200
        self.grow(len(items), deadline, lambda i, j: self.index.add(items[i:j]))

    def settings(self) -> list[Setting]:
        graph = self.index.hnsw
        return [self.asked(f"ef={ef}", lambda ef=ef: setattr(graph, "efSearch", ef)) for ef in EFS]


class FaissHnswSq(FaissHnsw):
    """The graph on raw inner products with rows of 8 bits a coordinate, and exact refinement."""

    family = "faiss HNSW-SQ"

    def fill(self, items: Floats, deadline: float) -> None:
        faiss = self.library
        base = faiss.IndexHNSWSQ(
            items.shape[1], faiss.ScalarQuantizer.QT_8bit, self.options["M"], faiss.METRIC_INNER_PRODUCT
        )
        base.hnsw.efConstruction = 200
        base.train(items)
        self.index = faiss.IndexRefineFlat(base)
        self.grow(len(items), deadline, lambda i, j: self.index.add(items[i:j]))
        self._base = base  # the refining index does not keep it alive

    def settings(self) -> list[Setting]:
        graph = self.library.downcast_index(self.index.base_index).hnsw
        self.index.k_factor = 2
        return [self.asked(f"ef={ef}", lambda ef=ef: setattr(graph, "efSearch", ef)) for ef in EFS]


class NgtGraph(Peer):
    """NGT's graph and tree, on vectors with one more coordinate that makes L2 rank as inner products do."""

    family, module, package = "NGT", "ngtpy", "ngt"

    def build(self, items: Floats, deadline: float) -> None:  # noqa: ARG002 - it cannot be stopped half way
        squares = np.einsum("jt,jt->j", items, items)
        longer = np.column_stack([items, np.sqrt(squares.max() - squares)]).astype(np.float32)
        self._made = Path(tempfile.mkdtemp()) / "index"
        path = str(self._made).encode()
        self.library.create(path, longer.shape[1], edge_size_for_creation=self.options["edges"], distance_type="L2")
        self.index = self.library.Index(path)
        self.index.batch_insert(longer, os.cpu_count() or 1)
        self.index.save()

    def save(self, folder: Path) -> None:
        shutil.copytree(self._made, folder / "index")

    def load(self, folder: Path, n_dims: int) -> None:
        self.index = self.library.Index(str(folder / "index").encode(), read_only=True)
        self._length = n_dims + 1

    def settings(self) -> list[Setting]:
        ask = self.index.search
        longer = np.zeros(getattr(self, "_length", 0) or self.index.get_object(0).__len__(), dtype=np.float32)

        def search(query: Floats, epsilon: float) -> Any:
            longer[:-1] = query
            return ask(longer, TOP_K, epsilon, with_distance=False)

        return [
            Setting(f"epsilon={epsilon:g}", lambda query, e=epsilon: search(query, e))
            for epsilon in (-0.1, -0.05, 0.0, 0.02, 0.05, 0.08, 0.1, 0.13, 0.16, 0.2, 0.3)
        ]


class Usearch(Peer):
    """The graph on raw inner products."""

    family, module, package = "usearch", "usearch.index", "usearch"

    def build(self, items: Floats, deadline: float) -> None:
        self.index = self.library.Index(
            ndim=items.shape[1], metric="ip", dtype="f32", connectivity=self.options["M"], expansion_add=200
        )
        self.grow(len(items), deadline, lambda i, j: self.index.add(np.arange(i, j), items[i:j]))

    def save(self, folder: Path) -> None:
        self.index.save(str(folder / "graph"))

    def load(self, folder: Path, n_dims: int) -> None:  # noqa: ARG002
        self.index = self.library.Index.restore(str(folder / "graph"))

    def settings(self) -> list[Setting]:
        ask = self.index.search
        return [
            Setting(
                f"ef={ef}",
                lambda query: ask(query, TOP_K, threads=1),
                lambda matches: matches.keys,
                lambda ef=ef: setattr(self.index, "expansion_search", ef),
            )
            for ef in EFS
        ]


class Voyager(Peer):
    """The graph on inner products made metric by the library itself."""

    family, module, package = "voyager", "voyager", "voyager"

    def build(self, items: Floats, deadline: float) -> None:
        self.index = self.library.Index(
            self.library.Space.InnerProduct,
            items.shape[1],
            M=self.options["M"],
            ef_construction=200,
            max_elements=len(items),
        )
        self.grow(len(items), deadline, lambda i, j: self.index.add_items(items[i:j], list(range(i, j))))

    def save(self, folder: Path) -> None:
        self.index.save(str(folder / "graph"))

    def load(self, folder: Path, n_dims: int) -> None:  # noqa: ARG002
        self.index = self.library.Index.load(str(folder / "graph"))

    def settings(self) -> list[Setting]:
        ask = self.index.query
        return [Setting(f"ef={ef}", lambda query, ef=ef: ask(query, TOP_K, 1, ef), _first) for ef in EFS]


def _first(answer: Any) -> Any:
    return np.ravel(answer[0])


def _second_row(answer: Any) -> Any:
    return answer[1][0]


FAMILIES: dict[str, type[Peer]] = {
    peer.family: peer
    for peer in (
        *(ScaNN, HnswlibIp, HnswlibL2, FaissIvfFlat, FaissFastScan, FaissHnsw, FaissHnswSq, NgtGraph, Usearch, Voyager),
    )
}


def lineup(n_items: int, *, quick: bool = False) -> list[Peer]:
    """Return every peer with every set of build options; `quick` has fewer graphs and partitions."""
    root = math.sqrt(n_items)
    leaves = [max(1, round(root * factor)) for factor in ((1, 2.5) if quick else (0.5, 1, 2.5))]
    lists = [max(1, round(root * factor)) for factor in ((1,) if quick else (1, 4))]
    graphs = (16, 48) if quick else (16, 32, 48)
    return [
        # Few, large leaves are nearly a flat scan of the codes: its best way to high recall where norms vary.
        ScaNN(leaves=max(1, round(root / 4)), soar=False),
        ScaNN(leaves=max(1, round(root / 4)), soar=False, block=1),
        *(ScaNN(leaves=count, soar=soar) for soar in (False, True) for count in leaves),
        *(FaissIvfFlat(lists=count) for count in lists),
        *(FaissFastScan(lists=count) for count in lists),
        *(HnswlibIp(M=edges) for edges in graphs),
        *(HnswlibL2(M=edges) for edges in graphs),
        NgtGraph(edges=20),
        *(
            kind(M=edges)
            for kind in (FaissHnsw, FaissHnswSq, Usearch, Voyager)
            for edges in (graphs[:1] if quick else graphs[:2])
        ),
    ]


def enter(peer: Peer, items: Floats, data: str, *, limit: float, cache: Path = CACHE) -> Contestant:
    """Return the peer ready to be searched: from the cache, or built within `limit` seconds and put there.

    Its build time is the processors', for others may use them too; its size is that of its files, which hold what it
    has in memory. Raises ImportError for a library that is not
    installed and TooSlowError.
    """
    version = importlib.metadata.version(peer.package) if peer.library else ""
    print_of = hashlib.blake2b(np.ascontiguousarray(items[:: max(1, len(items) // 1000)]).tobytes(), digest_size=4)
    name = re.sub(r"[^A-Za-z0-9.=]+", "-", f"{peer.name}-{version}")
    folder = cache / f"{data}-{print_of.hexdigest()}" / name
    if (folder / "built.json").exists():
        peer.load(folder, items.shape[1])
    else:
        start = time.process_time()
        peer.build(items, time.monotonic() + limit)
        seconds = time.process_time() - start
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent))
        peer.save(part)
        size = sum(path.stat().st_size for path in part.iterdir())
        (part / "built.json").write_text(json.dumps({"seconds": seconds, "bytes": size}))
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    built = json.loads((folder / "built.json").read_text())
    return Contestant(peer.name, peer.family, built["seconds"], built["bytes"], peer.settings())
