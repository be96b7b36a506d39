"""Vectors: what is converted, what is refused, how rows are laid out, what the file formats give."""

import numpy as np
import pytest

from greedy_core import embeddings
from greedy_core.embeddings import as_embeddings, as_queries, as_query, own_rows, pad_rows
from greedy_core.errors import InvalidEmbeddingsError, InvalidQueryError

MATRIX = np.array([[1, -2, 3], [0, 0, 0], [4, 5, 6], [4, 5, 6]], dtype=np.float32)


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "f2", "i1", "i8", ">i4", "longdouble"])
@pytest.mark.parametrize("layout", ["c", "fortran", "strided", "read-only", "list"])
def test_every_real_dtype_and_layout_gives_the_same_matrix(dtype, layout):
    given = MATRIX.astype(dtype)
    match layout:
        case "fortran":
            given = np.asfortranarray(given)
        case "strided":
            given = np.repeat(np.repeat(given, 2, axis=0), 3, axis=1)[::2, ::3]
        case "read-only":
            given.flags.writeable = False
        case "list":
            given = given.tolist()
    vectors = as_embeddings(given, name="items")
    assert vectors.dtype == np.float32
    assert vectors.dtype.isnative
    assert vectors.flags.c_contiguous
    np.testing.assert_array_equal(vectors, MATRIX)


def test_a_fitting_matrix_is_not_copied_even_if_read_only():
    given = MATRIX.copy()
    given.flags.writeable = False
    assert np.shares_memory(as_embeddings(given, name="items"), given)


def test_a_misaligned_matrix_is_copied():
    given = np.frombuffer(b"x" + MATRIX.tobytes(), dtype=np.uint8)[1:].view(np.float32).reshape(MATRIX.shape)
    vectors = as_embeddings(given, name="items")
    assert vectors.flags.aligned
    np.testing.assert_array_equal(vectors, MATRIX)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_first_non_finite_row_is_named_across_blocks(monkeypatch, value, dtype):
    monkeypatch.setattr(embeddings, "_BLOCK_VALUES", 6)
    given = np.zeros((9, 3), dtype=dtype)
    given[7, 1] = value
    given[8, 0] = value
    with pytest.raises(InvalidEmbeddingsError, match=r"row 7 of users holds .* in dimension 1"):
        as_embeddings(given, name="users")


@pytest.mark.parametrize("value", [1e39, 1.1e15, -1.1e15])
def test_values_whose_products_could_overflow_are_refused_with_the_reason(value):
    with pytest.raises(InvalidEmbeddingsError, match=r"row 1 of items holds .* values above 1e\+15 could overflow"):
        as_embeddings(np.array([[1.0], [value]]), name="items")


def test_float64_below_float32_becomes_zero():
    assert as_embeddings(np.array([[1e-300]]), name="items")[0, 0] == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros(3), "shape (3,)"),
        (np.zeros((2, 3, 1)), "shape (2, 3, 1)"),
        (np.float32(1), "shape ()"),
        (np.zeros((0, 3)), "at least one row"),
        (np.zeros((3, 0)), "at least one dimension"),
        (np.zeros((2, 2), dtype=complex), "complex128"),
        (np.zeros((2, 2), dtype=object), "object"),
        (np.array([["a", "b"]]), "real numbers"),
        (np.zeros((2, 2), dtype="datetime64[s]"), "datetime64"),
        ([[1, 2], [3]], "cannot be made one"),
        (None, "object"),
        (np.ma.masked_invalid([[1.0, np.nan]]), "masked"),
    ],
)
def test_what_is_no_matrix_of_real_numbers_is_refused(given, words):
    with pytest.raises(InvalidEmbeddingsError) as caught:
        as_embeddings(given, name="items")
    assert words in str(caught.value)
    assert str(caught.value).startswith("items")


class TestQuery:
    @pytest.mark.parametrize("dtype", ["<f4", ">f4", "f8", "f2", "i8"])
    def test_it_is_converted(self, dtype):
        np.testing.assert_array_equal(as_query(np.array([1, 2, 3], dtype=dtype), 3), [1, 2, 3])
        assert as_query([1, 2, 3], 3).dtype == np.float32

    def test_a_fitting_one_is_returned_as_it_is(self):
        query = np.ones(3, dtype=np.float32)
        assert as_query(query, 3) is query

    def test_a_column_of_a_matrix_is_made_contiguous(self):
        query = as_query(MATRIX[:, 1], 4)
        assert query.flags.c_contiguous
        np.testing.assert_array_equal(query, MATRIX[:, 1])

    def test_a_long_but_usable_one_is_accepted(self):
        query = np.full(4, 1e15, dtype=np.float32)
        np.testing.assert_array_equal(as_query(query, 4), query)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ([1, 2], "length 2, but the index has 3 dimensions"),
            ([[1, 2, 3]], "search_batch"),
            (1.0, "shape ()"),
            ([1, np.nan, 3], "the query holds nan in dimension 1"),
            (np.array([1, np.inf, 3], dtype=np.float32), "the query holds inf in dimension 1"),
            ([1e300, 0, 0], "could overflow"),
            (np.full(3, 3e38, dtype=np.float32), "could overflow"),
            (np.array([0, 1e18, 0], dtype=np.float32), "could overflow"),
            (["a", "b", "c"], "real numbers"),
            (None, "real numbers"),
        ],
    )
    def test_a_senseless_one_is_refused(self, given, words):
        with pytest.raises(InvalidQueryError) as caught:
            as_query(given, 3)
        assert words in str(caught.value)

    def test_many(self):
        np.testing.assert_array_equal(as_queries(MATRIX.astype(np.float64), 3), MATRIX)
        assert as_queries(np.zeros((0, 3)), 3).shape == (0, 3)
        with pytest.raises(InvalidQueryError, match=r"\(n_queries, 5\)"):
            as_queries(MATRIX, 5)
        with pytest.raises(InvalidQueryError, match="row 1 of queries"):
            as_queries([[0.0], [np.nan]], 1)


class TestPadding:
    @pytest.mark.parametrize("n_dims", [1, 15, 16, 17, 100, 128])
    def test_rows_are_whole_cache_lines_and_aligned(self, n_dims):
        given = np.arange(1, 5 * n_dims + 1, dtype=np.float32).reshape(5, n_dims)
        padded = pad_rows(given)
        assert padded.ctypes.data % 64 == 0
        assert padded.flags.c_contiguous
        assert padded.shape == (5, -(-n_dims // 16) * 16)
        np.testing.assert_array_equal(padded[:, :n_dims], given)
        assert not padded[:, n_dims:].any()

    def test_padded_rows_are_not_copied_again(self):
        padded = pad_rows(np.ones((3, 16), dtype=np.float32))
        assert pad_rows(padded) is padded

    def test_rows_of_an_index_are_out_of_the_callers_reach(self):
        given = pad_rows(np.ones((3, 16), dtype=np.float32))
        rows = own_rows(given)
        given[0, 0] = 7
        assert rows[0, 0] == 1
        assert rows.ctypes.data % 64 == 0
        given.flags.writeable = False
        assert own_rows(given) is given
