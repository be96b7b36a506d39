# distutils: language = c++
"""The way into native/: arrays become pointers, requests run without the GIL. There is no algorithm here."""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

cimport cython
cimport numpy as cnp

from greedy_core.eligible import Eligible
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

cdef extern from "code_table.h" namespace "greedy" nogil:
    cppclass CodeTable:
        const uint8_t* rows
        int64_t width

cdef extern from "greedy_walk.h" namespace "greedy" nogil:
    cppclass ItemGraph:
        const int32_t* neighbours
        int64_t degree
        const int32_t* entries
        int64_t n_entries
        CodeTable codes
        CodeTable details
        float longest
        int64_t scanned
        cbool guided

cdef extern from "eligible_items.h" namespace "greedy" nogil:
    cppclass EligibleItems:
        const uint64_t* words
        int64_t count
        const int32_t* listed
        const int32_t* spread
        int64_t n_spread

cdef extern from "text_search.h" namespace "greedy" nogil:
    cppclass Word:
        const unsigned char* small
        const unsigned char* capital
        int64_t length
    cppclass TextSearch:
        const unsigned char* text
        const int64_t* offsets
        vector[Word] words
        int64_t run(const int32_t* order, int64_t start, int64_t end, int64_t limit, int64_t& most_bytes,
                    vector[int32_t]& found) except +

cdef extern from "query_scratch.h" namespace "greedy" nogil:
    cppclass TopK:
        size_t size()
    cppclass QueryScratch:
        vector[int32_t] candidates
        TopK top

cdef extern from "item_rows.h" namespace "greedy" nogil:
    cdef enum class Precision "greedy::Precision":
        float32
        float16
        bfloat16
    cppclass ItemRows:
        const void* data
        int64_t stride
        Precision precision
        void score_rows(const float* query, const int32_t* ids, int64_t n, float* out)

cdef extern from "greedy_search.h" namespace "greedy" nogil:
    cpdef enum class Variant "greedy::Variant":
        threshold
        improved_tree
        improved_heap
        original_tree
        sum
        walk
    cpdef enum class Status "greedy::Status":
        ok
        query_not_usable
        budget_out_of_reach
        nothing_to_walk_on
    cppclass IndexView:
        ItemRows rows
        int64_t n_items
        int64_t n_dims
        int64_t max_budget
        const float* axes
        int64_t n_axes
        DirectionLists lists
        int64_t reads
        ItemGraph graph
    cppclass Request:
        const float* query
        const int32_t* remembered
        int64_t n_remembered
        int64_t top_k
        int64_t page
        int64_t budget
        const int32_t* exclude
        int64_t n_exclude
        Variant variant
        EligibleItems eligible
    cppclass Outcome:
        Status status
        int64_t spent
        int64_t entries_read
        cbool complete
        int64_t eligible

cdef extern from "batch_search.h" namespace "greedy" nogil:
    cppclass BatchOutput:
        int32_t* ids
        float* scores
        int64_t* counts
        Outcome* outcomes
        int64_t width

cdef extern from "entry_points.h" namespace "greedy::entry" nogil:
    void prepare(IndexView& index) except +
    void prepare(ItemGraph& graph, int64_t n_dims) except +
    int64_t first_bad_item(const ItemGraph& graph, int64_t n_items)
    int64_t first_bad_list(const DirectionLists& lists, int64_t n_items)
    void build_list(const float* column, int64_t n_items, float sign, int64_t depth, int32_t* ids,
                    float* values) except +
    Outcome search(QueryScratch& scratch, const IndexView& index, const Request& request) except +
    Outcome screen(QueryScratch& scratch, const IndexView& index, const Request& request, cbool ordered) except +
    int64_t copy_results(QueryScratch& scratch, int32_t* ids, float* scores)
    void search_batch(const IndexView& index, const Request* requests, int64_t n, int64_t n_threads,
                      const BatchOutput& output) except +
    QueryScratch& scratch_of_this_thread()

cdef extern from "blake2b.h" namespace "greedy" nogil:
    cppclass Text:
        const unsigned char* data
        size_t length

cdef extern from "id_table.h" namespace "greedy" nogil:
    cppclass IdTable:
        const unsigned char* text
        const int64_t* offsets
        const int32_t* buckets
        const int32_t* positions
        int64_t n_ids
        int bits
        void find(const Text* wanted, int64_t n, int32_t* found)
        int64_t first_bad_id() except +
        @staticmethod
        void hash(const Text* texts, int64_t n, uint64_t* digests)


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


# ---- external ids ------------------------------------------------------------------------------------------------

def hash_ids(list encoded):
    """The hashes that pick the buckets of ids given as UTF-8: BLAKE2b, 64 bits, as an uint64 array."""
    cdef cnp.npy_intp n = len(encoded), i
    cdef vector[Text] texts = vector[Text](n)
    cdef cnp.ndarray digests = cnp.PyArray_EMPTY(1, &n, cnp.NPY_UINT64, 0)
    cdef bytes text
    for i in range(n):
        text = encoded[i]
        texts[i].data = <const unsigned char*> text
        texts[i].length = len(text)
    IdTable.hash(texts.data(), n, <uint64_t*> cnp.PyArray_DATA(digests))
    return digests


cdef Text text_of(str given) except *:
    """The id as UTF-8, which lives as long as the str does; null for one that is not valid text."""
    cdef Text found
    cdef Py_ssize_t length = 0
    found.data = NULL
    try:
        found.data = <const unsigned char*> PyUnicode_AsUTF8AndSize(given, &length)
    except UnicodeEncodeError:
        pass
    found.length = length
    return found


cdef Text checked_text_of(given) except *:
    if not isinstance(given, str):
        raise InvalidQueryError(f"an id is text, but {given!r} was given.")
    return text_of(given)


cdef int32_t decimal_position(Text text, int64_t length) noexcept:
    """The number that a text is, if it is written without leading zeros and below `length`; else -1."""
    cdef int64_t number = 0
    cdef size_t i
    if text.data == NULL or not 1 <= text.length <= 10 or (text.data[0] == c"0" and text.length > 1):
        return -1
    for i in range(text.length):
        if not c"0" <= text.data[i] <= c"9":
            return -1
        number = 10 * number + (text.data[i] - c"0")
    return <int32_t> number if number < length else -1


def decimal_positions(texts, int64_t length):
    """The numbers from 0 to length - 1 that texts are, as an int32 array; -1 for other texts."""
    cdef list given = list(texts)
    cdef cnp.npy_intp n = len(given), i
    cdef cnp.ndarray found = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT32, 0)
    cdef int32_t* out = <int32_t*> cnp.PyArray_DATA(found)
    for i in range(n):
        out[i] = decimal_position(checked_text_of(given[i]), length)
    return found


@cython.final
cdef class IdLookup:
    """A table of ids as the native code sees it. Immutable; any number of threads may look up at once.

    The arrays are those of greedy_core.bundle.ids, kept alive and not copied; the caller has checked that nothing in
    them leads outside.
    """

    cdef IdTable table
    cdef tuple arrays

    def __init__(self, const unsigned char[::1] text, const int64_t[::1] offsets, const int32_t[::1] buckets,
                 const int32_t[::1] positions):
        cdef int64_t n_buckets = buckets.shape[0] - 1
        assert offsets.shape[0] == positions.shape[0] + 1 and n_buckets >= 2
        self.arrays = (text, offsets, buckets, positions)
        self.table.text = &text[0] if text.shape[0] else NULL
        self.table.offsets = &offsets[0]
        self.table.buckets = &buckets[0]
        self.table.positions = &positions[0] if positions.shape[0] else NULL
        self.table.n_ids = positions.shape[0]
        self.table.bits = 1
        while (<int64_t> 1 << self.table.bits) < n_buckets:
            self.table.bits += 1
        assert (<int64_t> 1 << self.table.bits) == n_buckets

    def position(self, str text not None):
        """Where the id stands, or None if nobody has it."""
        cdef Text wanted = text_of(text)
        cdef int32_t found = -1
        self.table.find(&wanted, 1, &found)
        return None if found < 0 else found

    def positions(self, texts):
        """Where each of the ids stands, as an int32 array; -1 where nobody has it."""
        cdef list given = list(texts)
        cdef cnp.npy_intp n = len(given), i
        cdef vector[Text] wanted = vector[Text](n)
        cdef cnp.ndarray found = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT32, 0)
        cdef int32_t* out = <int32_t*> cnp.PyArray_DATA(found)
        for i in range(n):
            wanted[i] = checked_text_of(given[i])
        with nogil:
            self.table.find(wanted.data(), n, out)
        return found

    def first_bad_id(self):
        """The position of the first id that is empty, given twice or not in its bucket; -1 if there is none."""
        cdef int64_t bad
        with nogil:
            bad = self.table.first_bad_id()
        return bad


def find_texts(const unsigned char[::1] text not None, const int64_t[::1] offsets not None,
               const int32_t[::1] order not None, words, int64_t start, int64_t limit, int64_t most_bytes):
    """Texts that have all words, of those at order[start], order[start + 1], and so on.

    A word is two byte strings of one length, its small and its capital letters. Stops when `limit` are found, or
    `most_bytes` of text are read. Returns (positions found, where in the order it stopped, bytes left). The caller has
    checked that neither offsets nor order lead outside.
    """
    cdef TextSearch search
    cdef Word word
    cdef vector[int32_t] found
    cdef const unsigned char[::1] small, capital
    cdef int64_t end = order.shape[0], stopped, left = most_bytes
    cdef const int32_t* first = &order[0] if end else NULL
    kept = [(bytes(one), bytes(other)) for one, other in words]
    for one, other in kept:
        assert 0 < len(one) == len(other)
        small, capital = one, other
        word.small, word.capital, word.length = &small[0], &capital[0], small.shape[0]
        search.words.push_back(word)
    search.text = &text[0] if text.shape[0] else NULL
    search.offsets = &offsets[0]
    with nogil:
        stopped = search.run(first, start, end, limit, left, found)
    return [found[i] for i in range(found.size())], stopped, left


# ---- searching ---------------------------------------------------------------------------------------------------

cdef int64_t MOST = 2**62
# Under a filter that leaves up to so many items all are estimated: that costs 192 products, and less time than a walk.
# Where they are more than a small share of all, lists and walks find more before these products are spent.
cdef int64_t MOST_SCANNED = 3072, SCANNED_SHARE = 32


cpdef int64_t few_of(int64_t n_items):
    """Return up to how many eligible items, of so many, are all estimated."""
    return min(MOST_SCANNED, n_items // SCANNED_SHARE)


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


cdef Precision precision_of(int dtype) except *:
    assert dtype in (cnp.NPY_FLOAT32, cnp.NPY_FLOAT16, cnp.NPY_UINT16)
    if dtype == cnp.NPY_FLOAT32:
        return Precision.float32
    return Precision.float16 if dtype == cnp.NPY_FLOAT16 else Precision.bfloat16


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

    rows (n_items, stride), padded, of float32, of float16, or of uint16 that are the bits of bfloat16; lists
    (n_lists, depth) or None for an exact scan; axes (n_axes, stride) float32, padded, or None where the axes are the
    coordinates. `walk_on` adds a graph. The arrays are kept alive, not copied; their ids are validated by
    `first_bad_list` and `first_bad_item`, which the caller must ask before the first search. Without rows, which lie
    elsewhere then, there are `n_items` items, and a kernel that only screens.
    """

    cdef IndexView view
    cdef tuple arrays
    cdef tuple graph_arrays

    def __init__(self, cnp.ndarray rows, int64_t n_dims, const int32_t[:, ::1] list_ids,
                 const float[:, ::1] list_values, const float[:, ::1] axes, int64_t max_budget, int64_t reads,
                 int64_t n_items=0):
        self.arrays = (rows, list_ids, list_values, axes)
        self.view.n_dims = n_dims
        self.view.max_budget = max_budget
        if rows is None:
            assert n_items > 0 and n_dims > 0
            self.view.rows.data = NULL
            self.view.rows.stride = (n_dims + 15) // 16 * 16
            self.view.n_items = n_items
        else:
            assert cnp.PyArray_NDIM(rows) == 2 and cnp.PyArray_ISCARRAY_RO(rows) and cnp.PyArray_DIM(rows, 0) > 0
            assert 0 < n_dims <= cnp.PyArray_DIM(rows, 1) and cnp.PyArray_DIM(rows, 1) % 16 == 0
            self.view.rows.data = cnp.PyArray_DATA(rows)
            self.view.rows.stride = cnp.PyArray_DIM(rows, 1)
            self.view.rows.precision = precision_of(cnp.PyArray_TYPE(rows))
            self.view.n_items = cnp.PyArray_DIM(rows, 0)
        if list_ids is None:
            return
        self.view.n_axes = n_dims
        if axes is not None:
            assert axes.shape[1] == self.view.rows.stride
            self.view.axes = &axes[0, 0]
            self.view.n_axes = axes.shape[0]
        assert list_ids.shape[0] == list_values.shape[0] == 2 * self.view.n_axes
        assert 0 < list_ids.shape[1] == list_values.shape[1] <= self.view.n_items
        self.view.lists.ids = &list_ids[0, 0]
        self.view.lists.values = &list_values[0, 0]
        self.view.lists.n_lists = list_ids.shape[0]
        self.view.lists.depth = list_ids.shape[1]
        self.view.reads = reads
        prepare(self.view)

    def walk_on(self, const int32_t[:, ::1] neighbours, const int32_t[::1] entries, const uint8_t[:, ::1] codes,
                const uint8_t[:, ::1] details, float longest, int64_t scanned=-1, cbool guided=False):
        """Add a graph: neighbours (n_items, degree), -1 from where a row ends, and entries.

        Codes and their details are (n_items, stride).
        Under a filter that leaves up to `scanned` items, all of them are estimated and nothing walks; a negative
        number is what `few_of` says. Where one walks, the others guide it or are passed (see filtered_walk.h).
        """
        assert neighbours.shape[0] == codes.shape[0] == details.shape[0] == self.view.n_items
        assert neighbours.shape[1] > 0
        assert entries.shape[0] > 0
        self.graph_arrays = (neighbours, entries, codes, details)
        self.view.graph.neighbours = &neighbours[0, 0]
        self.view.graph.degree = neighbours.shape[1]
        self.view.graph.entries = &entries[0]
        self.view.graph.n_entries = entries.shape[0]
        self.view.graph.codes.rows = &codes[0, 0]
        self.view.graph.details.rows = &details[0, 0]
        self.view.graph.longest = longest
        self.view.graph.scanned = few_of(self.view.n_items) if scanned < 0 else scanned
        self.view.graph.guided = guided
        prepare(self.view.graph, self.view.n_dims)
        assert codes.shape[1] == details.shape[1] == self.view.graph.codes.width + 4

    def first_bad_list(self):
        """The number of the first list that is out of order or names no item, or -1."""
        cdef int64_t bad
        with nogil:
            bad = first_bad_list(self.view.lists, self.view.n_items)
        return bad

    def first_bad_item(self):
        """The first item with a neighbour that is no item, n_items for a wrong entry, or -1."""
        cdef int64_t bad
        with nogil:
            bad = first_bad_item(self.view.graph, self.view.n_items)
        return bad

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

    cdef cnp.ndarray remembered_of(self, remembered):
        """The positions as an int32 vector, each of an item or negative."""
        cdef const int32_t* ids
        cdef cnp.npy_intp i
        if not is_plain(remembered, cnp.NPY_INT32):
            raise InvalidQueryError(
                "what a query remembers is a row of what GreedyIndex.remember returns, and this is something else."
            )
        ids = <const int32_t*> cnp.PyArray_DATA(remembered)
        for i in range(cnp.PyArray_DIM(remembered, 0)):
            if ids[i] >= self.view.n_items:
                raise InvalidQueryError(
                    f"the query remembers item {ids[i]}, but this index has {self.view.n_items} items; ask it for its "
                    "own with GreedyIndex.remember."
                )
        return remembered

    cdef int allow(self, Request* request, eligible, Variant few) except -1:
        """Set what a request may find. The caller keeps `eligible` alive."""
        cdef cnp.ndarray words, spread, listed
        request.eligible.words = NULL
        if eligible is None:
            return 0
        if not isinstance(eligible, Eligible):
            raise InvalidQueryError(
                f"eligible must be an Eligible, made by Eligible.from_mask for instance, but {eligible!r} was given."
            )
        if eligible.n_items != self.view.n_items:
            raise InvalidQueryError(
                f"eligible is about {eligible.n_items} items, but this index has {self.view.n_items}; make it anew."
            )
        words, spread, positions = eligible.words, eligible.spread, eligible.positions
        request.eligible.words = <const uint64_t*> cnp.PyArray_DATA(words)
        request.eligible.count = eligible.count
        request.eligible.spread = <const int32_t*> cnp.PyArray_DATA(spread)
        request.eligible.n_spread = cnp.PyArray_DIM(spread, 0)
        request.eligible.listed = NULL
        if positions is not None:
            listed = positions
            request.eligible.listed = <const int32_t*> cnp.PyArray_DATA(listed)
        if request.eligible.count <= self.view.graph.scanned:
            request.variant = few
        return 0

    cdef int fill(self, Request* request, const float* query, top_k, budget, cnp.ndarray exclude, Variant variant,
                  cnp.ndarray remembered) except -1:
        """Make a request of checked arguments. The caller keeps the arrays alive."""
        request.query = query
        request.remembered = NULL
        request.n_remembered = 0
        if remembered is not None:
            request.remembered = <const int32_t*> cnp.PyArray_DATA(remembered)
            request.n_remembered = cnp.PyArray_DIM(remembered, 0)
        request.top_k = request.page = positive(top_k, "top_k", InvalidQueryError)
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
        if outcome.status == Status.nothing_to_walk_on:
            raise InvalidQueryError(
                "this index has no graph to walk on; leave out the variant, or build with directions=\"graph\"."
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

    def search(self, query, top_k, budget, exclude, Variant variant, Variant few, remembered, eligible, page):
        """One search; `few` is the variant where few enough items are eligible to estimate all. page: None is top_k."""
        cdef Request request
        cdef Outcome outcome
        cdef QueryScratch* scratch = &scratch_of_this_thread()
        cdef cnp.npy_intp n
        cdef cnp.ndarray w = self.vector_of(query)
        cdef cnp.ndarray excluded = None if exclude is None else self.positions_of(exclude)
        cdef cnp.ndarray known = None if remembered is None else self.remembered_of(remembered)
        self.fill(&request, <const float*> cnp.PyArray_DATA(w), top_k, budget, excluded, variant, known)
        if page is not None:
            request.page = positive(page, "page", InvalidQueryError)
        self.allow(&request, eligible, few)
        assert self.view.rows.data != NULL
        with nogil:
            outcome = search(scratch[0], self.view, request)
        self.check(outcome, request.budget)
        n = scratch.top.size()
        cdef cnp.ndarray ids = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT32, 0)
        cdef cnp.ndarray scores = cnp.PyArray_EMPTY(1, &n, cnp.NPY_FLOAT32, 0)
        copy_results(scratch[0], <int32_t*> cnp.PyArray_DATA(ids), <float*> cnp.PyArray_DATA(scores))
        return SearchResult(ids, scores, outcome.spent, outcome.complete, outcome.entries_read, outcome.eligible)

    def products(self, const float[::1] row, others):
        """The inner products of a padded row with items, given by their positions, as float32."""
        assert row.shape[0] == self.view.rows.stride and self.view.rows.data != NULL
        cdef cnp.ndarray ids = self.positions_of(others)
        cdef cnp.npy_intp n = cnp.PyArray_DIM(ids, 0)
        cdef cnp.ndarray found = cnp.PyArray_EMPTY(1, &n, cnp.NPY_FLOAT32, 0)
        self.view.rows.score_rows(
            &row[0], <const int32_t*> cnp.PyArray_DATA(ids), n, <float*> cnp.PyArray_DATA(found)
        )
        return found

    def screen(self, query, budget, exclude, Variant variant, Variant few, cbool ordered, remembered, eligible, top_k):
        """The candidates, in the greedy order if asked, what a search of them would spend, and the entries read."""
        cdef Request request
        cdef Outcome outcome
        cdef QueryScratch* scratch = &scratch_of_this_thread()
        cdef cnp.npy_intp n, i
        cdef cnp.ndarray w = self.vector_of(query)
        cdef cnp.ndarray excluded = None if exclude is None else self.positions_of(exclude)
        cdef cnp.ndarray known = None if remembered is None else self.remembered_of(remembered)
        self.fill(&request, <const float*> cnp.PyArray_DATA(w), top_k, budget, excluded, variant, known)
        self.allow(&request, eligible, few)
        with nogil:
            outcome = screen(scratch[0], self.view, request, ordered)
        self.check(outcome, request.budget)
        n = scratch.candidates.size()
        cdef cnp.ndarray ids = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT32, 0)
        cdef int32_t* out = <int32_t*> cnp.PyArray_DATA(ids)
        for i in range(n):
            out[i] = scratch.candidates[i]
        return ids, outcome.spent, outcome.entries_read

    def search_batch(self, queries, top_k, budget, exclude, Variant variant, Variant few, int64_t threads, remembered,
                     eligible):
        """One search per row of queries. budget, eligible: one for all, or one each; the others: None, or one each."""
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
        known = [
            None if ids is None else self.remembered_of(ids)
            for ids in one_each(remembered, n, "lists of remembered items")
        ]
        allowed = [eligible] * n if eligible is None or isinstance(eligible, Eligible) else one_each(
            eligible, n, "sets of eligible items")
        for i in range(n):
            self.fill(&requests[i], &rows[i, 0], top_k, budgets[i], excluded[i], variant, known[i])
            self.allow(&requests[i], allowed[i], few)
        cdef cnp.ndarray ids = cnp.PyArray_EMPTY(2, shape, cnp.NPY_INT32, 0)
        cdef cnp.ndarray scores = cnp.PyArray_EMPTY(2, shape, cnp.NPY_FLOAT32, 0)
        output.ids = <int32_t*> cnp.PyArray_DATA(ids)
        output.scores = <float*> cnp.PyArray_DATA(scores)
        output.counts = counts.data()
        output.outcomes = outcomes.data()
        output.width = shape[1]
        assert self.view.rows.data != NULL
        with nogil:
            search_batch(self.view, requests.data(), n, threads, output)
        results = []
        for i in range(n):
            self.check(outcomes[i], requests[i].budget)
            results.append(SearchResult(ids[i, :counts[i]], scores[i, :counts[i]], outcomes[i].spent,
                                        outcomes[i].complete, outcomes[i].entries_read, outcomes[i].eligible))
        return results
