"""Items by words of their titles: what a plain loop over the titles finds, in the order of popularity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greedy_core import GreedyIndex, write_bundle
from greedy_core.bundle import title_search
from greedy_core.bundle.texts import Texts, pack_texts
from greedy_core.bundle.title_search import find_in_texts

LETTERS = st.sampled_from("aAbBßéÉжЖİı 日ſK-")  # noqa: RUF001 - letters whose capitals are a puzzle


def texts_of(titles):
    return Texts.from_arrays("titles", pack_texts("titles", [title.encode() for title in titles]))


def slowly(titles, wanted, popular, limit):
    """Return the positions of the first titles that have all words, looked at one after the other."""
    words = [word.casefold() for word in wanted.split()]
    order = [*popular, *(at for at in range(len(titles)) if at not in set(popular))]
    return [at for at in order if all(word in titles[at].casefold() for word in words)][:limit]


@given(
    titles=st.lists(st.text(st.sampled_from("aAbBéÉжЖ 日"), max_size=8), min_size=1, max_size=30),
    wanted=st.text(st.sampled_from("aAbBéÉжЖ 日"), min_size=1, max_size=5),
    limit=st.integers(1, 10),
    seed=st.integers(0, 99),
)
def test_it_finds_what_a_loop_finds(titles, wanted, limit, seed):
    rng = np.random.default_rng(seed)
    popular = rng.permutation(len(titles))[: rng.integers(0, len(titles) + 1)].astype(np.int32)
    found = find_in_texts(texts_of(titles), wanted, popular, limit)
    assert found.positions == slowly(titles, wanted, popular.tolist(), limit)
    if found.complete:
        assert found.positions == slowly(titles, wanted, popular.tolist(), len(titles))


@given(titles=st.lists(st.text(LETTERS, max_size=8), min_size=1, max_size=20), wanted=st.text(LETTERS, min_size=1))
def test_whatever_the_letters_nothing_wrong_is_found(titles, wanted):
    popular = np.arange(len(titles), dtype=np.int32)
    found = find_in_texts(texts_of(titles), wanted, popular, 5)
    assert set(found.positions) <= set(slowly(titles, wanted, popular.tolist(), len(titles)))


@pytest.mark.parametrize(
    ("title", "wanted"),
    [
        ("Straße", "straße"), ("Straße", "strasse"), ("STRASSE", "straße"), ("Straße", "STRASSE"), ("ẞ", "ß"),
        ("ὁ ΛΌΓΟΣ", "λόγος"), ("λόγος", "ΛΌΓΟΣ"), ("λόγος", "λόγοσ"), ("Ⱥ", "ⱥ"),
    ],
)  # fmt: skip
def test_letters_that_are_written_in_several_ways_are_found(title, wanted):
    titles = ["other", title]
    assert slowly(titles, wanted, [], 5) == [1]
    assert find_in_texts(texts_of(titles), wanted, np.zeros(0, np.int32), 5) == ([1], True)


def test_the_work_is_bounded(monkeypatch):
    titles = ["x" * 99] * 50 + ["here"]
    popular = np.arange(51, dtype=np.int32)
    assert find_in_texts(texts_of(titles), "here", popular, 5) == ([50], True)
    monkeypatch.setattr(title_search, "MOST_BYTES", 1000)
    assert find_in_texts(texts_of(titles), "here", popular, 5) == ([], False)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    vectors = np.eye(6, dtype=np.float32)
    return write_bundle(
        tmp_path_factory.mktemp("titles") / "model",
        index=GreedyIndex.build(vectors),
        item_ids=["a1", "a2", "b1", "b2", "jazz", "c9"],
        titles=["Blue Train", "Kind of Blue", None, "BLUE moon", "Opera", "Ode to jazz"],
        popular=[5, 3, 1],
    )


def test_popular_items_first_and_an_id_before_all(bundle):
    assert bundle.find_items("blue") == ([3, 1, 0], True)
    assert bundle.find_items("blue", 2) == ([3, 1], False)
    assert bundle.find_items("BLU kin") == ([1], True)
    assert bundle.find_items("jazz") == ([4, 5], True)
    assert bundle.find_items("nothing") == ([], True)
    assert bundle.find_items(" ", 2) == ([5, 3], False)


def test_without_titles_ids_are_searched(tmp_path):
    vectors = np.eye(4, dtype=np.float32)
    named = write_bundle(
        tmp_path / "named", index=GreedyIndex.build(vectors), item_ids=["Ab", "b", "cAB", "d"], popular=[2]
    )
    assert named.find_items("ab") == ([2, 0], True)
    numbered = write_bundle(tmp_path / "numbered", index=GreedyIndex.build(vectors))
    assert numbered.find_items("3") == ([3], True)
    assert numbered.find_items("9") == ([], True)
