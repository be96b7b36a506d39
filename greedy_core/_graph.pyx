# distutils: language = c++
"""The way into native/graph_building.h and native/code_table.h: what is made once, when an index is built."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

cimport numpy as cnp

import numpy as np

cnp.import_array()

cdef extern from "graph_building.h" namespace "greedy" nogil:
    cppclass Near:
        pass
    cppclass BuildScratch:
        vector[Near] near
    cppclass ReverseEdges:
        vector[int64_t] starts
        vector[int32_t] sources
        void assign(const int32_t* edges, int64_t n_rows, int64_t degree, int64_t n_ids) except +
    void nearest_members(const float* products, const float* squares, const int32_t* members, int64_t n, int64_t i,
                         int64_t count, vector[Near]& near, int32_t* out) except +
    cppclass Space:
        const float* vectors
        const float* squares
        int64_t stride
    void keep_neighbours(BuildScratch& scratch, const Space& space, int64_t degree, int32_t* out) except +
    void add_near(BuildScratch& scratch, const Space& space, int64_t item, const int32_t* ids, int64_t n) except +
    void listed_together(BuildScratch& scratch, const int32_t* lists, int64_t length, const ReverseEdges& in_lists,
                         int64_t item, int64_t most_lists, int64_t count, int32_t* out) except +

cdef extern from "code_table.h" namespace "greedy" nogil:
    int64_t code_width_of "greedy::code_width"(int64_t n_dims)
    int64_t code_stride_of "greedy::code_stride"(int64_t n_dims)
    cppclass Rotation:
        void assign(int64_t n_dims) except +
        int64_t size()
        void apply(float* x, float* spare)
    float encode(const float* rotated, int64_t width, uint8_t* row, uint8_t* details)


def code_stride(int64_t n_dims):
    """How many bytes a compressed row has."""
    return code_stride_of(n_dims)


def encode_rows(const float[:, ::1] vectors, const float[::1] mean, uint8_t[:, ::1] out, uint8_t[:, ::1] details):
    """Write the codes of the vectors without their mean, and their details. Returns the length of the longest code."""
    cdef int64_t n_dims = vectors.shape[1]
    cdef int64_t width = code_width_of(n_dims)
    cdef Rotation rotation
    cdef vector[float] rotated, spare
    cdef int64_t i, t
    cdef float longest = 0, length
    assert mean.shape[0] == n_dims and out.shape[0] == details.shape[0] == vectors.shape[0]
    assert out.shape[1] == details.shape[1] == code_stride_of(n_dims)
    rotation.assign(n_dims)
    rotated.resize(rotation.size())
    spare.resize(rotation.size())
    with nogil:
        for i in range(vectors.shape[0]):
            for t in range(rotation.size()):
                rotated[t] = vectors[i, t] - mean[t] if t < n_dims else 0.0
            rotation.apply(rotated.data(), spare.data())
            length = encode(rotated.data(), width, &out[i, 0], &details[i, 0])
            if length > longest:
                longest = length
    return longest


def nearest_in_group(const float[:, ::1] products, const float[::1] squares, const int32_t[::1] members,
                     int32_t[:, ::1] out):
    """Write, for each member of a group, the nearest others; products (m, m) are those of all pairs."""
    cdef int64_t n = members.shape[0]
    cdef int64_t i
    cdef vector[Near] near
    assert products.shape[0] == products.shape[1] == squares.shape[0] == out.shape[0] == n
    with nogil:
        for i in range(n):
            nearest_members(&products[i, 0], &squares[0], &members[0], n, i, out.shape[1], near, &out[i, 0])


cdef class Reversed:
    """Rows of ids (n_rows, length), each -1 from where it ends on, by the ids: which rows name an id."""

    cdef ReverseEdges edges
    cdef const int32_t[:, ::1] rows

    def __cinit__(self, const int32_t[:, ::1] rows, int64_t n_ids):
        self.rows = rows
        self.edges.assign(&rows[0, 0], rows.shape[0], rows.shape[1], n_ids)

    def counts(self):
        """How many rows name each id."""
        return np.diff(np.asarray(<int64_t[:self.edges.starts.size()]> self.edges.starts.data()))

    def together(self, int64_t start, int64_t most_rows, int32_t[:, ::1] out):
        """Write, for each of the ids from `start` on, those that most often stand in the same rows."""
        cdef BuildScratch scratch
        cdef int64_t i
        assert 0 <= start and start + out.shape[0] < <int64_t> self.edges.starts.size()
        with nogil:
            for i in range(out.shape[0]):
                listed_together(scratch, &self.rows[0, 0], self.rows.shape[1], self.edges, start + i, most_rows,
                                out.shape[1], &out[i, 0])


def prune(const float[:, ::1] vectors, const float[::1] squares, int64_t start, candidates, Reversed reverse,
          int32_t[:, ::1] out):
    """Write the neighbours of the items from `start` on, chosen from candidates by the distance of their vectors.

    vectors: padded to whole cache lines; squares: of their lengths;
    candidates: matrices with a row for each item, -1 from where it ends on; reverse: whoever names an item, or None.
    """
    cdef BuildScratch scratch
    cdef const int32_t[:, ::1] ids
    cdef vector[const int32_t*] sources
    cdef vector[int64_t] widths
    cdef Space space
    cdef int64_t i, item, first
    cdef size_t s
    held = []
    for matrix in candidates:
        ids = matrix
        held.append(ids)
        assert ids.shape[0] == vectors.shape[0]
        sources.push_back(&ids[0, 0])
        widths.push_back(ids.shape[1])
    assert 0 <= start and start + out.shape[0] <= vectors.shape[0] == squares.shape[0] and vectors.shape[1] % 16 == 0
    space.vectors = &vectors[0, 0]
    space.squares = &squares[0]
    space.stride = vectors.shape[1]
    cdef ReverseEdges* edges = NULL
    if reverse is not None:
        edges = &reverse.edges
    with nogil:
        for i in range(out.shape[0]):
            item = start + i
            scratch.near.clear()
            for s in range(sources.size()):
                add_near(scratch, space, item, sources[s] + item * widths[s], widths[s])
            if edges != NULL:
                first = edges.starts[item]
                add_near(scratch, space, item, edges.sources.data() + first, edges.starts[item + 1] - first)
            keep_neighbours(scratch, space, out.shape[1], &out[i, 0])
