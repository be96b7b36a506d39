# distutils: language = c++
"""Arrays in, pointers down, a loop without the interpreter, arrays out. No algorithm lives here.

Every class takes rows that are padded to whole cache lines and queries padded alike, and its `search` answers
(items, scores, candidates): int32 and float32 of shape (n_queries, top_k), int64 of shape (n_queries,).
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool


cdef extern from "ranking.h" namespace "baselines" nogil:
    cdef cppclass RowTable:
        const float* rows
        int64_t stride
        int64_t n_rows
        const int32_t* item_of

    void search_batch[Screening](
        Screening&, const RowTable&, const float*, int64_t, int64_t, int32_t*, float*, int64_t*)

cdef extern from "naive.h" namespace "baselines" nogil:
    void naive_batch(const double*, int64_t, int64_t, const double*, int64_t, int64_t, int32_t*, float*)

cdef extern from "pca_tree.h" namespace "baselines" nogil:
    void grow_pca_tree(const float*, int64_t, int, int32_t*, float*, int64_t*)

    cdef cppclass CppPcaTree "baselines::PcaTree":
        const float* directions
        int64_t stride
        int grown
        int depth
        const float* pivots
        const int64_t* leaf_start
        float radius
        cbool boost
        cbool root_pivots
        int64_t leaf_of(const float*)

cdef extern from "lsh.h" namespace "baselines" nogil:
    void fill_table(const float*, int64_t, int, int32_t*, int32_t*)

    cdef cppclass CppHashTables "baselines::HashTables":
        CppHashTables(int64_t)
        const float* directions
        int64_t stride
        int filled_bits
        int bits
        int64_t tables
        const int32_t* bucket_start
        const int32_t* members

cdef extern from "alias_table.h" namespace "baselines" nogil:
    cdef cppclass AliasSlot:
        uint32_t keep
        int32_t other

    double fill_alias_table(const float*, int64_t, AliasSlot*)

cdef extern from "sampling.h" namespace "baselines" nogil:
    cdef cppclass CppSampling "baselines::Sampling":
        CppSampling(int64_t)
        const float* rows
        int64_t stride
        int64_t n_dims
        const AliasSlot* columns
        const double* column_sums
        cbool diamond
        int64_t samples
        int64_t budget
        uint64_t seed

cdef extern from "dwedge.h" namespace "baselines" nogil:
    cdef cppclass WedgeEntry:
        int32_t item
        float value

    void fill_wedge_list(const float*, int64_t, int64_t, WedgeEntry*, double*)

    cdef cppclass CppDwedge "baselines::Dwedge":
        CppDwedge(int64_t)
        const WedgeEntry* lists
        int64_t length
        int64_t n_dims
        const double* column_sums
        int64_t samples
        int64_t budget

cdef extern from "kmeans.h" namespace "baselines" nogil:
    cdef cppclass CppClusters "baselines::Clusters":
        const float* centres
        int64_t stride
        int64_t n_clusters
        const int64_t* cluster_start
        int64_t probes


ALIAS_SLOT = np.dtype([("keep", np.uint32), ("other", np.int32)])
WEDGE_ENTRY = np.dtype([("item", np.int32), ("value", np.float32)])


cdef class _Answers:
    """Room for the answers to a batch."""

    cdef readonly object items, scores, candidates
    cdef int32_t[:, ::1] items_view
    cdef float[:, ::1] scores_view
    cdef int64_t[::1] candidates_view

    def __cinit__(self, int64_t n_queries, int64_t top_k):
        self.items = np.empty((n_queries, top_k), dtype=np.int32)
        self.scores = np.empty((n_queries, top_k), dtype=np.float32)
        self.candidates = np.empty(n_queries, dtype=np.int64)
        self.items_view, self.scores_view, self.candidates_view = self.items, self.scores, self.candidates

    cdef tuple pack(self):
        return self.items, self.scores, self.candidates


cdef class Rows:
    """The rows a method ranks, and which item each of them is."""

    cdef const float[:, ::1] rows
    cdef const int32_t[::1] item_of
    cdef RowTable table

    def __init__(self, const float[:, ::1] rows, const int32_t[::1] item_of=None):
        self.rows, self.item_of = rows, item_of
        self.table.rows = &rows[0, 0]
        self.table.stride, self.table.n_rows = rows.shape[1], rows.shape[0]
        self.table.item_of = NULL
        if item_of is not None:
            self.table.item_of = &item_of[0]


def naive_search(const double[:, ::1] items, const double[:, ::1] queries, int64_t top_k):
    cdef int64_t n = queries.shape[0]
    cdef _Answers out = _Answers(n, top_k)
    if n and top_k:
        with nogil:
            naive_batch(&items[0, 0], items.shape[0], items.shape[1], &queries[0, 0], n, top_k,
                        &out.items_view[0, 0], &out.scores_view[0, 0])
    out.candidates[:] = items.shape[0]
    return out.pack()


cdef class PcaTree:
    """A grown tree. `order` and `leaf_start` say which items lie in which leaf."""

    cdef readonly object order, pivots, leaf_start
    cdef const float[:, ::1] directions
    cdef const float[::1] pivots_view
    cdef const int64_t[::1] starts_view
    cdef CppPcaTree tree

    def __init__(self, const float[:, ::1] projections, const float[:, ::1] directions, float radius):
        cdef int depth = projections.shape[0]
        cdef int64_t n = projections.shape[1]
        cdef int32_t[::1] order = np.empty(n, dtype=np.int32)
        cdef float[::1] pivots = np.zeros(1 << depth, dtype=np.float32)
        cdef int64_t[::1] starts = np.empty((1 << depth) + 1, dtype=np.int64)
        with nogil:
            grow_pca_tree(&projections[0, 0], n, depth, &order[0], &pivots[0], &starts[0])
        self.order, self.pivots, self.leaf_start = np.asarray(order), np.asarray(pivots), np.asarray(starts)
        self.directions, self.pivots_view, self.starts_view = directions, pivots, starts
        self.tree.directions, self.tree.stride = &directions[0, 0], directions.shape[1]
        self.tree.grown = self.tree.depth = depth
        self.tree.pivots, self.tree.leaf_start, self.tree.radius = &pivots[0], &starts[0], radius

    def leaf_of(self, const float[::1] query, cbool root_pivots=False):
        self.tree.depth, self.tree.root_pivots = self.tree.grown, root_pivots
        return self.tree.leaf_of(&query[0])

    def search(self, Rows rows, const float[:, ::1] queries, int64_t top_k, int depth, cbool boost,
               cbool root_pivots):
        cdef _Answers out = _Answers(queries.shape[0], top_k)
        self.tree.depth, self.tree.boost, self.tree.root_pivots = depth, boost, root_pivots
        if queries.shape[0] and top_k:
            with nogil:
                search_batch(self.tree, rows.table, &queries[0, 0], queries.shape[0], top_k,
                             &out.items_view[0, 0], &out.scores_view[0, 0], &out.candidates_view[0])
        return out.pack()


cdef class HashTables:
    """`tables` hash tables of 2^bits buckets, filled one after the other by `fill`. Fewer bits are a prefix of all."""

    cdef readonly object bucket_start, members
    cdef int32_t[:, ::1] starts_view
    cdef int32_t[:, ::1] members_view
    cdef const float[:, ::1] directions
    cdef CppHashTables* hashes

    def __cinit__(self, int64_t n_items, int bits, int64_t tables, const float[:, ::1] directions):
        self.hashes = new CppHashTables(n_items)
        self.bucket_start = np.zeros((tables, (1 << bits) + 1), dtype=np.int32)
        self.members = np.zeros((tables, n_items), dtype=np.int32)
        self.starts_view, self.members_view, self.directions = self.bucket_start, self.members, directions
        self.hashes.directions, self.hashes.stride = &directions[0, 0], directions.shape[1]
        self.hashes.filled_bits, self.hashes.bits, self.hashes.tables = bits, bits, tables
        self.hashes.bucket_start, self.hashes.members = &self.starts_view[0, 0], &self.members_view[0, 0]

    def __dealloc__(self):
        del self.hashes

    def fill(self, int64_t table, const float[:, ::1] projected):
        with nogil:
            fill_table(&projected[0, 0], projected.shape[0], self.hashes.filled_bits, &self.starts_view[table, 0],
                       &self.members_view[table, 0])

    def search(self, Rows rows, const float[:, ::1] queries, int64_t top_k, int bits, int64_t tables):
        cdef _Answers out = _Answers(queries.shape[0], top_k)
        self.hashes.bits, self.hashes.tables = bits, tables
        if queries.shape[0] and top_k:
            with nogil:
                search_batch(self.hashes[0], rows.table, &queries[0, 0], queries.shape[0], top_k,
                             &out.items_view[0, 0], &out.scores_view[0, 0], &out.candidates_view[0])
        return out.pack()


cdef class Sampling:
    """Alias tables over the absolute values of every column, filled one after the other by `fill`."""

    cdef readonly object columns, column_sums
    cdef const float[:, ::1] rows_view
    cdef double[::1] sums_view
    cdef int64_t n_items
    cdef CppSampling* sampling

    def __cinit__(self, const float[:, ::1] rows, int64_t n_dims, cbool diamond):
        self.n_items = rows.shape[0]
        self.sampling = new CppSampling(self.n_items)
        self.columns = np.zeros((n_dims, self.n_items), dtype=ALIAS_SLOT)
        self.column_sums = np.zeros(n_dims)
        self.rows_view, self.sums_view = rows, self.column_sums
        self.sampling.rows, self.sampling.stride, self.sampling.n_dims = &rows[0, 0], rows.shape[1], n_dims
        self.sampling.columns, self.sampling.column_sums = self.slots(0), &self.sums_view[0]
        self.sampling.diamond = diamond

    def __dealloc__(self):
        del self.sampling

    cdef AliasSlot* slots(self, int64_t t):
        cdef uint64_t[:, ::1] whole = self.columns.view(np.uint64)
        return <AliasSlot*> &whole[t, 0]

    def fill(self, int64_t t, const float[::1] weights):
        cdef AliasSlot* slots = self.slots(t)
        with nogil:
            self.sums_view[t] = fill_alias_table(&weights[0], weights.shape[0], slots)

    def search(self, Rows rows, const float[:, ::1] queries, int64_t top_k, int64_t samples, int64_t budget,
               uint64_t seed):
        cdef _Answers out = _Answers(queries.shape[0], top_k)
        self.sampling.samples, self.sampling.budget, self.sampling.seed = samples, budget, seed
        if queries.shape[0] and top_k:
            with nogil:
                search_batch(self.sampling[0], rows.table, &queries[0, 0], queries.shape[0], top_k,
                             &out.items_view[0, 0], &out.scores_view[0, 0], &out.candidates_view[0])
        return out.pack()


cdef class Dwedge:
    """For every column its entries of largest absolute value, filled one after the other by `fill`."""

    cdef readonly object lists, column_sums
    cdef double[::1] sums_view
    cdef int64_t length
    cdef CppDwedge* wedge

    def __cinit__(self, int64_t n_items, int64_t n_dims, int64_t length):
        self.wedge = new CppDwedge(n_items)
        self.length = length
        self.lists = np.zeros((n_dims, length), dtype=WEDGE_ENTRY)
        self.column_sums = np.zeros(n_dims)
        self.sums_view = self.column_sums
        self.wedge.lists, self.wedge.length, self.wedge.n_dims = self.entries(0), length, n_dims
        self.wedge.column_sums = &self.sums_view[0]

    def __dealloc__(self):
        del self.wedge

    cdef WedgeEntry* entries(self, int64_t t):
        cdef uint64_t[:, ::1] whole = self.lists.view(np.uint64)
        return <WedgeEntry*> &whole[t, 0]

    def fill(self, int64_t t, const float[::1] column):
        cdef WedgeEntry* entries = self.entries(t)
        with nogil:
            fill_wedge_list(&column[0], column.shape[0], self.length, entries, &self.sums_view[t])

    def search(self, Rows rows, const float[:, ::1] queries, int64_t top_k, int64_t samples, int64_t budget):
        cdef _Answers out = _Answers(queries.shape[0], top_k)
        self.wedge.samples, self.wedge.budget = samples, budget
        if queries.shape[0] and top_k:
            with nogil:
                search_batch(self.wedge[0], rows.table, &queries[0, 0], queries.shape[0], top_k,
                             &out.items_view[0, 0], &out.scores_view[0, 0], &out.candidates_view[0])
        return out.pack()


cdef class Clusters:
    """Centres, and where each cluster begins among the rows."""

    cdef const float[:, ::1] centres
    cdef const int64_t[::1] starts_view
    cdef CppClusters clusters

    def __init__(self, const float[:, ::1] centres, const int64_t[::1] cluster_start):
        self.centres, self.starts_view = centres, cluster_start
        self.clusters.centres, self.clusters.stride = &centres[0, 0], centres.shape[1]
        self.clusters.n_clusters, self.clusters.cluster_start = centres.shape[0], &cluster_start[0]

    def search(self, Rows rows, const float[:, ::1] queries, int64_t top_k, int64_t probes):
        cdef _Answers out = _Answers(queries.shape[0], top_k)
        self.clusters.probes = probes
        if queries.shape[0] and top_k:
            with nogil:
                search_batch(self.clusters, rows.table, &queries[0, 0], queries.shape[0], top_k,
                             &out.items_view[0, 0], &out.scores_view[0, 0], &out.candidates_view[0])
        return out.pack()
