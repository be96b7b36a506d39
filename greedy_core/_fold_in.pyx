# distutils: language = c++
"""The way into native/fold_in.h: a vector made of items that somebody met."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool

cimport numpy as cnp

import numpy as np

cnp.import_array()

cdef extern from "fold_in.h" namespace "greedy" nogil:
    cppclass FoldInSystem:
        const double* gram
        const double* inverse
        int64_t n_dims
    cppclass FoldInScratch:
        pass
    cbool fold_in_native "greedy::fold_in"(
        FoldInScratch& scratch, const FoldInSystem& system, const float* rows, int64_t stride, const int32_t* ids,
        const double* certain, int64_t n, const float* prior, float* out) except +
    void weighted_mean_native "greedy::weighted_mean"(
        FoldInScratch& scratch, const float* rows, int64_t stride, int64_t n_dims, const int32_t* ids,
        const double* weights, int64_t n, float* out) except +

cdef extern from *:
    """
    static greedy::FoldInScratch& fold_in_scratch() {
      static thread_local greedy::FoldInScratch scratch;
      return scratch;
    }
    """
    FoldInScratch& fold_in_scratch() nogil


cdef int64_t row_stride(const float[:, :] items) except -1:
    """How many floats lie from one row to the next; the values of a row lie one after the other."""
    assert items.shape[0] > 0 and items.shape[1] > 0 and items.strides[1] == sizeof(float)
    return items.strides[0] // <int64_t> sizeof(float)


def fold_in(const float[:, :] items, const double[:, ::1] gram, const double[:, ::1] inverse,
            const int32_t[::1] ids, const double[::1] certain, const float[::1] prior):
    """The folded-in vector, or None where the numbers cannot be solved with. The ids are in range and all different."""
    cdef FoldInSystem system
    cdef FoldInScratch* scratch = &fold_in_scratch()
    cdef int64_t stride = row_stride(items)
    cdef int64_t n = ids.shape[0]
    cdef const float* before = NULL
    cdef cbool solved
    system.n_dims = items.shape[1]
    assert gram.shape[0] == gram.shape[1] == inverse.shape[0] == inverse.shape[1] == system.n_dims
    assert n == certain.shape[0] > 0
    if prior is not None:
        assert prior.shape[0] == system.n_dims
        before = &prior[0]
    system.gram = &gram[0, 0]
    system.inverse = &inverse[0, 0]
    vector = np.empty(system.n_dims, dtype=np.float32)
    cdef float[::1] out = vector
    with nogil:
        solved = fold_in_native(scratch[0], system, &items[0, 0], stride, &ids[0], &certain[0], n, before, &out[0])
    return vector if solved else None


def weighted_mean(const float[:, :] items, const int32_t[::1] ids, const double[::1] weights):
    """The weighted mean of items. The ids are in range."""
    cdef FoldInScratch* scratch = &fold_in_scratch()
    cdef int64_t stride = row_stride(items)
    cdef int64_t n = ids.shape[0]
    assert n == weights.shape[0] > 0
    vector = np.empty(items.shape[1], dtype=np.float32)
    cdef float[::1] out = vector
    with nogil:
        weighted_mean_native(scratch[0], &items[0, 0], stride, items.shape[1], &ids[0], &weights[0], n, &out[0])
    return vector
