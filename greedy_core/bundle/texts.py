"""Many short texts in two arrays: all bytes one after the other, and where each begins.

A million Python strings cost each worker process some 100 MB and a second to make; two memory-mapped arrays
cost nothing until a text is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.errors import CorruptModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt


class Texts:
    """Read-only texts by position, over the arrays `text` (uint8, UTF-8) and `offsets` (int64, n + 1).

    arrays  these two
    """

    __slots__ = ("_bytes", "_length", "_name", "_offsets", "arrays")

    def __init__(self, name: str, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> None:
        """Check the arrays so that no position can lead outside of them; `name` is for the message."""
        check_offsets(name, offsets, len(text))
        if offsets.dtype != np.int64:
            raise CorruptModelError(f"the offsets of {name} are {offsets.dtype}, not int64; build the model again.")
        if text.dtype != np.uint8 or text.ndim != 1:
            raise CorruptModelError(f"{name} must be bytes, but it is {text.dtype}; build the model again.")
        self._name = name
        self.arrays = text, offsets
        self._length = len(offsets) - 1
        # Item access through a memoryview takes a third of the time that it takes through an array.
        self._bytes = text.data
        self._offsets = offsets.data

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Texts:
        """Open what `pack_texts` made under this name."""
        return cls(name, arrays[f"{name}.text"], arrays[f"{name}.offsets"])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> str:
        # Damaged bytes are replaced here; `verify` is what reports them.
        return self.raw(position).tobytes().decode("utf-8", "replace")

    def raw(self, position: int) -> memoryview:
        """Return the UTF-8 bytes of one text."""
        if not 0 <= position < self._length:
            raise IndexError(f"there is no text {position}; positions go from 0 to {self._length - 1}.")
        return self._bytes[self._offsets[position] : self._offsets[position + 1]]

    def many(self, positions: Sequence[int]) -> list[str]:
        """Return the texts at these positions, which must be plain ints in range."""
        text, offsets = self._bytes, self._offsets
        try:
            return [text[offsets[at] : offsets[at + 1]].tobytes().decode() for at in positions]
        except UnicodeDecodeError:
            return [self[at] for at in positions]

    def verify(self) -> None:
        """Read all texts. Raises CorruptModelError if one is not valid UTF-8."""
        text, offsets = self.arrays
        try:
            text.tobytes().decode()
        except UnicodeDecodeError as reason:
            raise CorruptModelError(
                f"{self._name} holds no valid text at byte {reason.start}; build the model again."
            ) from None
        # The whole is valid, so a part is, too, unless it begins within a character.
        begins = text[offsets[offsets < len(text)]]
        if ((begins & 0xC0) == 0x80).any():
            raise CorruptModelError(f"a text of {self._name} begins within a character; build the model again.")


def pack_texts(name: str, encoded: Iterable[bytes]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of `Texts`, named for a model directory."""
    encoded = list(encoded)
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), out=offsets[1:])
    return {f"{name}.text": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.offsets": offsets}


def check_offsets(name: str, offsets: npt.NDArray[Any], end: int) -> None:
    """Refuse offsets that do not lead from 0 to `end` in steps of zero or more."""
    if offsets.dtype.kind != "i" or offsets.ndim != 1 or len(offsets) == 0:
        raise CorruptModelError(f"the offsets of {name} are no list of whole numbers; build the model again.")
    if offsets[0] != 0 or offsets[-1] != end or (offsets[1:] < offsets[:-1]).any():
        raise CorruptModelError(f"the offsets of {name} do not lead from 0 to {end}; build the model again.")
