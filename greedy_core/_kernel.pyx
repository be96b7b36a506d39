# distutils: language = c++
"""The way into native/: arrays become pointers, requests run without the GIL. There is no algorithm here."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

cimport cython
cimport numpy as cnp

from greedy_core.embeddings import as_queries, as_query
from greedy_core.errors import InvalidBudgetError, InvalidQueryError, UnsupportedKernelError
from greedy_core.positions import as_positions
from greedy_core.result import SearchResult

cnp.import_array()

cdef extern from "inner_product.h" namespace "greedy" nogil:
    cppclass InnerProductKernel:
        const char* name
    const InnerProductKernel& inner_product_kernel()
    const char* use_inner_product_kernel(const char* name)
    const char* const* inner_product_kernel_names()
    cbool inner_product_kernel_supported(const char* name)

cdef extern from "direction_lists.h" namespace "greedy" nogil:
    cppclass DirectionLists:
        const int32_t* ids
        const float* values
        int64_t n_lists
        int64_t depth
    cppclass ListKnots:
        void assign(const DirectionLists& lists) except +

cdef extern from "level_table.h" namespace "greedy" nogil:
    cppclass LevelTable:
        void assign(const DirectionLists& lists, const DirectionLists& centre_lists) except +

cdef extern from "followed_lists.h" namespace "greedy" nogil:
    cppclass Decomposition:
        const float* weights
        int64_t n_axes
        const float* centres
        int64_t n_centres

cdef extern from "list_building.h" namespace "greedy" nogil:
    void build_list(const float* column, int64_t n_items, float sign, int64_t depth, int32_t* ids,
                    float* values) except +
    int64_t first_bad_list(const DirectionLists& lists, int64_t n_items)

cdef extern from "query_scratch.h" namespace "greedy" nogil:
    cppclass TopK:
        size_t size()
    cppclass QueryScratch:
        vector[int32_t] candidates
        TopK top
    QueryScratch& query_scratch()

cdef extern from "greedy_search.h" namespace "greedy" nogil:
    cpdef enum class Variant "greedy::Variant":
        threshold
        improved_tree
        improved_heap
        original_tree
        sum
    cpdef enum class Status "greedy::Status":
        ok
        query_not_usable
        budget_out_of_reach
        decomposition_not_usable
    cppclass IndexView:
        const float* rows
        int64_t n_items
        int64_t n_dims
        int64_t stride
        int64_t max_budget
        const float* axes
        int64_t n_axes
        DirectionLists lists
        DirectionLists centre_lists
        ListKnots knots
        LevelTable levels
        int64_t reads
        int64_t decomposed_reads
    cppclass Request:
        const float* query
        Decomposition decomposition
        int64_t top_k
        int64_t budget
        const int32_t* exclude
        int64_t n_exclude
        Variant variant
    cppclass Outcome:
        Status status
        int64_t spent
        int64_t entries_read
        cbool complete
    Outcome search(QueryScratch& scratch, const IndexView& index, const Request& request) except +
    Outcome screen(QueryScratch& scratch, const IndexView& index, const Request& request, cbool ordered) except +

cdef extern from "batch_search.h" namespace "greedy" nogil:
    cppclass BatchOutput:
        int32_t* ids
        float* scores
        int64_t* counts
        Outcome* outcomes
        int64_t width
    int64_t copy_results(QueryScratch& scratch, int32_t* ids, float* scores)
    void search_batch(const IndexView& index, const Request* requests, int64_t n, int64_t n_threads,
                      const BatchOutput& output) except +


# ---- instruction sets --------------------------------------------------------------------------------------------

def instruction_sets():
    """All instruction sets by name, best first, and whether this CPU has each."""
    cdef const char* const* names = inner_product_kernel_names()
    cdef dict found = {}
    cdef int i = 0
    while names[i] != NULL:
        found[names[i].decode()] = bool(inner_product_kernel_supported(names[i]))
        i += 1
    return found


def instruction_set():
    """The name of the instruction set in use."""
    return inner_product_kernel().name.decode()


def use_instruction_set(str name):
    """Use the named instruction set from now on, in all threads. Not to be called while searches run."""
    cdef bytes encoded = name.encode()
    cdef const char* problem = use_inner_product_kernel(encoded)
    if problem == NULL:
        return
    sets = instruction_sets()
    usable = ", ".join(known for known, supported in sets.items() if supported)
    if name in sets:
        raise UnsupportedKernelError(f"this CPU does not have {name}; it runs {usable}.")
    raise UnsupportedKernelError(f"there is no instruction set called {name!r}; this CPU runs {usable}.")


# ---- building ----------------------------------------------------------------------------------------------------

def build_lists(const float[:, ::1] columns, int64_t depth, int32_t[:, ::1] ids, float[:, ::1] values):
    """Fill lists with the `depth` best entries of each column, without the GIL.

    columns (n_columns, n_items) are the projections of the items; ids and values (n_lists, depth) are written. With
    two lists for each column, list 2t goes along column t and list 2t + 1 against it; with one, it goes along.
    """
    cdef int64_t n_items = columns.shape[1]
    cdef int64_t sides = ids.shape[0] // columns.shape[0]
    cdef int64_t t, list
    assert 0 < depth <= n_items
    assert ids.shape[0] == values.shape[0] == sides * columns.shape[0] and 1 <= sides <= 2
    assert ids.shape[1] == values.shape[1] == depth
    with nogil:
        for list in range(ids.shape[0]):
            t = list // sides
            build_list(&columns[t, 0], n_items, -1.0 if list % sides else 1.0, depth, &ids[list, 0], &values[list, 0])


# ---- searching ---------------------------------------------------------------------------------------------------

cdef int64_t MOST = 2**62


cdef int64_t positive(value, str name, error) except -1:
    """A whole number from 1, anything above 2**62 being as good as 2**62."""
    if type(value) is not int:
        try:
            if isinstance(value, bool):
                raise TypeError
            value = value.__index__()
        except (AttributeError, TypeError):
            raise error(f"{name} must be a whole number, but {value!r} was given.") from None
    if value < 1:
        raise error(f"{name} must be at least 1, but {value} was given.")
    return min(value, MOST)


cdef inline bint is_plain(array, int dtype):
    """Whether it is a contiguous vector of just that dtype, in the byte order of this machine."""
    return (
        cnp.PyArray_Check(array)
        and cnp.PyArray_TYPE(array) == dtype
        and cnp.PyArray_NDIM(array) == 1
        and cnp.PyArray_ISCARRAY_RO(array)
    )


def one_each(values, int64_t n, str name):
    """The values as a list with one for each query, or n times None."""
    if values is None:
        return [None] * n
    if len(values) != n:
        raise InvalidQueryError(f"there are {n} queries but {len(values)} {name}; give one for each query.")
    return list(values)


@cython.final
cdef class Kernel:
    """One index as the native code sees it. Immutable; any number of threads may search it at once.

    rows (n_items, stride) float32, padded; lists (n_lists, depth) or None for an exact scan; axes (n_axes, stride)
    float32, padded, or None where the axes are the coordinates; centre_ids and centre_values (n_centres, centre_depth)
    or None. The arrays are kept alive, not copied; their ids are validated by `first_bad_list`, which the caller must
    ask before the first search.
    """

    cdef IndexView view
    cdef tuple arrays

    def __init__(self, const float[:, ::1] rows, int64_t n_dims, const int32_t[:, ::1] list_ids,
                 const float[:, ::1] list_values, const float[:, ::1] axes, const int32_t[:, ::1] centre_ids,
                 const float[:, ::1] centre_values, int64_t max_budget, int64_t reads, int64_t decomposed_reads):
        assert 0 < n_dims <= rows.shape[1] and rows.shape[1] % 16 == 0 and rows.shape[0] > 0
        self.arrays = (rows, list_ids, list_values, axes, centre_ids, centre_values)
        self.view.rows = &rows[0, 0]
        self.view.n_items = rows.shape[0]
        self.view.n_dims = n_dims
        self.view.stride = rows.shape[1]
        self.view.max_budget = max_budget
        if list_ids is None:
            return
        self.view.n_axes = n_dims
        if axes is not None:
            assert axes.shape[1] == rows.shape[1]
            self.view.axes = &axes[0, 0]
            self.view.n_axes = axes.shape[0]
        assert list_ids.shape[0] == 2 * self.view.n_axes
        self.view.lists = self.lists_of(list_ids, list_values)
        if centre_ids is not None:
            self.view.centre_lists = self.lists_of(centre_ids, centre_values)
        self.view.reads = reads
        self.view.decomposed_reads = decomposed_reads
        self.view.knots.assign(self.view.lists)
        self.view.levels.assign(self.view.lists, self.view.centre_lists)

    cdef DirectionLists lists_of(self, const int32_t[:, ::1] ids, const float[:, ::1] values):
        cdef DirectionLists lists
        assert 0 < ids.shape[0] == values.shape[0] and 0 < ids.shape[1] == values.shape[1] <= self.view.n_items
        lists.ids = &ids[0, 0]
        lists.values = &values[0, 0]
        lists.n_lists = ids.shape[0]
        lists.depth = ids.shape[1]
        return lists

    def first_bad_list(self):
        """The number of the first list that is out of order or names no item, or -1. Centres follow the axes."""
        cdef int64_t bad, bad_centre
        with nogil:
            bad = first_bad_list(self.view.lists, self.view.n_items)
            bad_centre = first_bad_list(self.view.centre_lists, self.view.n_items)
        return bad if bad >= 0 or bad_centre < 0 else self.view.lists.n_lists + bad_centre

    cdef cnp.ndarray vector_of(self, query):
        """The query as a float32 vector; one that already is costs a few comparisons."""
        if is_plain(query, cnp.NPY_FLOAT32) and cnp.PyArray_DIM(query, 0) == self.view.n_dims:
            return query
        return as_query(query, self.view.n_dims)

    cdef cnp.ndarray positions_of(self, exclude):
        """The positions as an int32 vector, all in range."""
        cdef const int32_t* ids
        cdef cnp.npy_intp i
        if not is_plain(exclude, cnp.NPY_INT32):
            return as_positions(exclude, self.view.n_items)
        ids = <const int32_t*> cnp.PyArray_DATA(exclude)
        for i in range(cnp.PyArray_DIM(exclude, 0)):
            if ids[i] < 0 or ids[i] >= self.view.n_items:
                return as_positions(exclude, self.view.n_items)
        return exclude

    cdef cnp.ndarray decomposition_of(self, decomposition, Variant variant):
        """The decomposition as a float32 vector of a length that this index can have made."""
        cdef cnp.npy_intp spare
        if not is_plain(decomposition, cnp.NPY_FLOAT32):
            raise InvalidQueryError("a decomposition is a row of what GreedyIndex.decompose returns, and this is something else.")
        spare = cnp.PyArray_DIM(decomposition, 0) - self.view.n_axes
        if self.view.lists.n_lists == 0 or spare < 0 or spare % 2 or spare // 2 > self.view.centre_lists.n_lists:
            raise InvalidQueryError(
                f"a decomposition of length {cnp.PyArray_DIM(decomposition, 0)} is not of this index, which has {self.view.n_axes} "
                f"axes and {self.view.centre_lists.n_lists} centres; ask it for its own with GreedyIndex.decompose."
            )
        if variant != Variant.sum:
            raise InvalidQueryError("a decomposition is for screening by sums; leave it out, or the variant.")
        return decomposition

    cdef int fill(self, Request* request, const float* query, top_k, budget, cnp.ndarray exclude, Variant variant,
                  cnp.ndarray decomposition) except -1:
        """Make a request of checked arguments. The caller keeps the arrays alive."""
        request.query = query
        request.decomposition.weights = NULL
        request.decomposition.centres = NULL
        request.decomposition.n_axes = 0
        request.decomposition.n_centres = 0
        if decomposition is not None:
            request.decomposition.weights = <const float*> cnp.PyArray_DATA(decomposition)
            request.decomposition.n_axes = self.view.n_axes
            request.decomposition.n_centres = (cnp.PyArray_DIM(decomposition, 0) - self.view.n_axes) // 2
            request.decomposition.centres = request.decomposition.weights + self.view.n_axes + request.decomposition.n_centres
        request.top_k = positive(top_k, "top_k", InvalidQueryError)
        request.budget = positive(budget, "the budget", InvalidBudgetError)
        request.variant = variant
        request.exclude = NULL
        request.n_exclude = 0
        if exclude is not None:
            request.exclude = <const int32_t*> cnp.PyArray_DATA(exclude)
            request.n_exclude = cnp.PyArray_DIM(exclude, 0)
        return 0

    cdef int check(self, Outcome outcome, int64_t budget) except -1:
        if outcome.status == Status.ok:
            return 0
        if outcome.status == Status.query_not_usable:
            raise InvalidQueryError(
                "the query has a value that is not finite or is above 1e15, which could overflow an inner product; "
                "repair it."
            )
        if outcome.status == Status.decomposition_not_usable:
            raise InvalidQueryError(
                "the decomposition has a weight that is not finite or names a centre that is not one of "
                f"{self.view.centre_lists.n_lists}; ask this index for its own with GreedyIndex.decompose."
            )
        if self.view.lists.n_lists == 0:
            raise InvalidBudgetError(
                f"an exact scan spends an inner product on each of the {self.view.n_items} items, but the budget is "
                f"{budget}; raise it, or use a GreedyIndex."
            )
        raise InvalidBudgetError(
            f"the budget {budget} is above this index's max_budget of {self.view.max_budget} and below the "
            f"{self.view.n_items} products of an exact scan; lower it, or build the index with a larger max_budget."
        )

    def search(self, query, top_k, budget, exclude, Variant variant, decomposition):
        """One search."""
        cdef Request request
        cdef Outcome outcome
        cdef QueryScratch* scratch = &query_scratch()
        cdef cnp.npy_intp n
        cdef cnp.ndarray w = self.vector_of(query)
        cdef cnp.ndarray excluded = None if exclude is None else self.positions_of(exclude)
        cdef cnp.ndarray followed = None if decomposition is None else self.decomposition_of(decomposition, variant)
        self.fill(&request, <const float*> cnp.PyArray_DATA(w), top_k, budget, excluded, variant, followed)
        with nogil:
            outcome = search(scratch[0], self.view, request)
        self.check(outcome, request.budget)
        n = scratch.top.size()
        cdef cnp.ndarray ids = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT32, 0)
        cdef cnp.ndarray scores = cnp.PyArray_EMPTY(1, &n, cnp.NPY_FLOAT32, 0)
        copy_results(scratch[0], <int32_t*> cnp.PyArray_DATA(ids), <float*> cnp.PyArray_DATA(scores))
        return SearchResult(ids, scores, outcome.spent, outcome.complete, outcome.entries_read)

    def screen(self, query, budget, exclude, Variant variant, cbool ordered, decomposition):
        """The candidates, in the greedy order if asked."""
        cdef Request request
        cdef Outcome outcome
        cdef QueryScratch* scratch = &query_scratch()
        cdef cnp.npy_intp n, i
        cdef cnp.ndarray w = self.vector_of(query)
        cdef cnp.ndarray excluded = None if exclude is None else self.positions_of(exclude)
        cdef cnp.ndarray followed = None if decomposition is None else self.decomposition_of(decomposition, variant)
        self.fill(&request, <const float*> cnp.PyArray_DATA(w), 1, budget, excluded, variant, followed)
        with nogil:
            outcome = screen(scratch[0], self.view, request, ordered)
        self.check(outcome, request.budget)
        n = scratch.candidates.size()
        cdef cnp.ndarray ids = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT32, 0)
        cdef int32_t* out = <int32_t*> cnp.PyArray_DATA(ids)
        for i in range(n):
            out[i] = scratch.candidates[i]
        return ids

    def search_batch(self, queries, top_k, budget, exclude, Variant variant, int64_t threads, decompositions):
        """One search per row of queries. budget: one for all, or one each; exclude, decompositions: None, or one each."""
        cdef const float[:, ::1] rows = as_queries(queries, self.view.n_dims)
        cdef int64_t n = rows.shape[0]
        cdef vector[Request] requests = vector[Request](n)
        cdef vector[Outcome] outcomes = vector[Outcome](n)
        cdef vector[int64_t] counts = vector[int64_t](n)
        cdef BatchOutput output
        cdef cnp.npy_intp[2] shape
        cdef int64_t i
        shape[0] = n
        shape[1] = min(positive(top_k, "top_k", InvalidQueryError), self.view.n_items)
        budgets = one_each(budget, n, "budgets") if hasattr(budget, "__len__") else [budget] * n
        excluded = [None if ids is None else self.positions_of(ids) for ids in one_each(exclude, n, "exclude lists")]
        followed = [None if decomposition is None else self.decomposition_of(decomposition, variant) for decomposition in one_each(decompositions, n, "decompositions")]
        for i in range(n):
            self.fill(&requests[i], &rows[i, 0], top_k, budgets[i], excluded[i], variant, followed[i])
        cdef cnp.ndarray ids = cnp.PyArray_EMPTY(2, shape, cnp.NPY_INT32, 0)
        cdef cnp.ndarray scores = cnp.PyArray_EMPTY(2, shape, cnp.NPY_FLOAT32, 0)
        output.ids = <int32_t*> cnp.PyArray_DATA(ids)
        output.scores = <float*> cnp.PyArray_DATA(scores)
        output.counts = counts.data()
        output.outcomes = outcomes.data()
        output.width = shape[1]
        with nogil:
            search_batch(self.view, requests.data(), n, threads, output)
        results = []
        for i in range(n):
            self.check(outcomes[i], requests[i].budget)
            results.append(SearchResult(ids[i, :counts[i]], scores[i, :counts[i]], outcomes[i].spent,
                                        outcomes[i].complete, outcomes[i].entries_read))
        return results
