"""Items by words of their titles, the popular ones first.

The titles of a bundle lie one after the other in memory-mapped bytes. They are looked through as they are, without a
second copy in small letters, and without the GIL: 650,000 titles that nobody has looked at yet take some 50
milliseconds, and a word that is common is found in the first few.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from greedy_core._kernel import find_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from greedy_core.bundle.texts import Texts
    from greedy_core.eligible import Eligible

# Further words are not looked for, and a longer one is no word.
MOST_WORDS = 8
LONGEST_WORD = 100
# Titles of more than so many bytes are not all looked at.
MOST_BYTES = 64 << 20


class FoundItems(NamedTuple):
    """Positions of items, the popular ones first; `complete` says whether there are no others."""

    positions: list[int]
    complete: bool


def find_in_texts(
    texts: Texts, wanted: str, popular: npt.NDArray[np.int32], limit: int, eligible: Eligible | None = None
) -> FoundItems:
    """Return the first `limit` texts, in the order of `popular` and then of the others, that have all words in them.

    A word may be any part of the text, in small or capital letters. Without `eligible` all texts are looked at.
    """
    words = list(dict.fromkeys(word[:LONGEST_WORD] for word in wanted.split()))[:MOST_WORDS]
    folded = [word.casefold() for word in words]
    parts = [part for part in map(_as_bytes, words) if part[0]]
    found: list[int] = []
    left = MOST_BYTES
    for order in orders(popular, len(texts), eligible):
        at = 0
        while at < len(order) and len(found) < limit and left > 0:
            some, at, left = find_texts(*texts.arrays, order, parts, at, limit - len(found), left)
            # The bytes only say that all words may be there.
            found += [each for each in some if _has_all(texts[each], folded)]
        if at < len(order):
            return FoundItems(found, complete=False)
    return FoundItems(found, complete=True)


def orders(popular: npt.NDArray[np.int32], n_texts: int, eligible: Eligible | None) -> Iterator[npt.NDArray[np.int32]]:
    """Yield positions in the order in which they are looked at: the popular ones, then the others."""
    yield _let_through(popular, eligible)
    if len(popular) < n_texts:
        others = np.ones(n_texts, dtype=np.bool_)
        others[popular] = False
        yield _let_through(np.flatnonzero(others).astype(np.int32), eligible)


def _let_through(positions: npt.NDArray[np.int32], eligible: Eligible | None) -> npt.NDArray[np.int32]:
    if eligible is None:
        return positions
    bits = eligible.words[positions >> 6] >> (positions & 63).astype(np.uint64)
    found: npt.NDArray[np.int32] = positions[(bits & np.uint64(1)).astype(np.bool_)]
    return found


def _as_bytes(word: str) -> tuple[bytes, bytes]:
    """Return a word's longest part of plain letters, small and capital: what every text has that has the word."""
    part = max(_odd_letters().split(word), key=len)
    small, capital = bytearray(), bytearray()
    for letter in part:
        one, other = letter.lower().encode("utf-8", "replace"), letter.upper().encode("utf-8", "replace")
        small += one
        capital += other if len(one) == len(other) else one
    return bytes(small), bytes(capital)


@cache
def _odd_letters() -> re.Pattern[str]:
    """Return what finds letters that a text may write in other ways than small or capital: sharp s, sigmas and others.

    Of ASCII this is the double s alone, although a ligature or a long s may stand for others: most titles have none.
    """
    letters = [
        chr(code)
        for code in (*range(0x80, 0x2200), *range(0x2C00, 0x2E00), *range(0xAB00, 0xAC00), *range(0xFB00, 0xFB20))
    ]
    odd = {each for letter in letters if letter.casefold() != letter.lower() for each in letter + letter.casefold()}
    odd |= {letter for letter in letters if len(letter.lower().encode()) != len(letter.upper().encode())}
    odd |= {letter for letter in letters if not odd.isdisjoint(letter.casefold())}
    return re.compile(
        "s{2,}|[" + re.escape("".join(sorted(each for each in odd if not each.isascii()))) + "]+", re.IGNORECASE
    )


def _has_all(text: str, words: Sequence[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)
