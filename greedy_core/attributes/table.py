"""The attributes of a model, by name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.attributes.attribute import Attribute, ListAttribute
from greedy_core.attributes.packing import KINDS, infer_kind, pack_values
from greedy_core.errors import CorruptModelError, InvalidAttributesError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.attributes.packing import Kind

    Arrays = dict[str, npt.NDArray[Any]]

MOST_ATTRIBUTES = 256
LONGEST_NAME = 100
# A message names so many of them.
_NAMED = 30


class Attributes:
    """All attributes of `n_items` items. Immutable, and safe to share among threads.

    Use `from_columns` to make them, `from_arrays` to open them.
    """

    def __init__(self, attributes: Sequence[Attribute | ListAttribute], n_items: int, arrays: Arrays) -> None:
        self.n_items = n_items
        self.names = tuple(attribute.name for attribute in attributes)
        self._by_name = {attribute.name: attribute for attribute in attributes}
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Attribute | ListAttribute]:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Attribute | ListAttribute:
        """Return an attribute. Raises InvalidAttributesError with the names that there are."""
        attribute = self._by_name.get(name)
        if attribute is None:
            raise InvalidAttributesError(self.unknown(name))
        return attribute

    def unknown(self, name: str) -> str:
        """Return the sentence for a name that no attribute has."""
        if not self.names:
            return (
                f"there is no attribute {name[:LONGEST_NAME]!r}; the model has none at all, build it with --attributes."
            )
        # No longer than a name can be: comparing takes time and memory with the length of what it is given.
        close = get_close_matches(name[:LONGEST_NAME], self.names, n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        more = f" and {len(self) - _NAMED} more" if len(self) > _NAMED else ""
        return (
            f"there is no attribute {name[:LONGEST_NAME]!r}{meant}; there are: {', '.join(self.names[:_NAMED])}{more}."
        )

    def values(self, position: int, names: Sequence[str]) -> dict[str, Any]:
        """Return some attributes of one item as JSON can hold them; None where a value is missing."""
        return {name: self._by_name[name].value(position) for name in names}

    def describe(self) -> list[dict[str, Any]]:
        """Return name, kind, number of distinct values and share of missing values of each attribute."""
        return [
            {
                "name": attribute.name,
                "type": attribute.kind,
                "values": attribute.n_values,
                "missing": round(attribute.n_missing / max(1, self.n_items), 6),
            }
            for attribute in self
        ]

    def verify(self) -> None:
        """Read all values. Raises CorruptModelError for what no build would have written."""
        for attribute in self:
            attribute.verify()

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, Sequence[Any] | npt.NDArray[Any]],
        n_items: int,
        *,
        positions: npt.ArrayLike | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> Attributes:
        """Make attributes of columns; None, and NaN in a column of numbers, are missing values.

        positions  where the items stand that the rows are about, none twice; without it, row j is about item j
        kinds      what a column is, where its values do not say so; texts in ISO 8601 may be called times

        Columns whose values are all missing need a kind, or are left out. Raises InvalidAttributesError.
        """
        rows = np.arange(n_items) if positions is None else np.asarray(positions, dtype=np.int64)
        if len(rows) and (rows.min() < 0 or rows.max() >= n_items or len(np.unique(rows)) < len(rows)):
            raise InvalidAttributesError(
                f"the positions of attributes must be different ones from 0 to {n_items - 1}, but they are not."
            )
        described: list[dict[str, str]] = []
        arrays: Arrays = {}
        for name, values in columns.items():
            check_name(name)
            if len(values) != len(rows):
                raise InvalidAttributesError(
                    f"the attribute {name} has {len(values)} values for {len(rows)} rows; give one for each."
                )
            kind = (kinds or {}).get(name) or infer_kind(name, values)
            if kind is None:
                continue
            if kind not in KINDS:
                raise InvalidAttributesError(
                    f"the attribute {name} cannot be a {kind}; it is one of {', '.join(KINDS)}."
                )
            packed = pack_values(name, kind, values, rows, n_items)
            arrays |= {f"{len(described)}.{part}": array for part, array in packed.items()}
            described.append({"name": name, "kind": kind})
        if len(described) > MOST_ATTRIBUTES:
            raise InvalidAttributesError(
                f"there are {len(described)} attributes, but a model has at most {MOST_ATTRIBUTES}; leave some out."
            )
        return cls.from_arrays(arrays, described, n_items)

    def to_arrays(self) -> tuple[Arrays, list[dict[str, str]]]:
        """Return what `from_arrays` opens: the arrays by name, and what JSON can hold."""
        return dict(self._arrays), [{"name": attribute.name, "kind": attribute.kind} for attribute in self]

    @classmethod
    def from_arrays(cls, arrays: Arrays, described: Any, n_items: int) -> Attributes:
        """Open attributes after checking that nothing in them leads outside. Raises CorruptModelError."""
        names = [each["name"] for each in described]
        if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            raise CorruptModelError("its attributes have no names, or two the same; build the model again.")
        opened: list[Attribute | ListAttribute] = []
        for number, each in enumerate(described):
            prefix = f"{number}."
            parts = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            if each["kind"] not in KINDS:
                raise CorruptModelError(
                    f"the attribute {each['name']!r} is a {each['kind']!r}, which this release does not know; "
                    "build the model again."
                )
            is_list = each["kind"] == "list"
            opened.append(
                ListAttribute(each["name"], parts, n_items)
                if is_list
                else Attribute(each["name"], each["kind"], parts, n_items)
            )
        return cls(opened, n_items, arrays)


def check_name(name: object) -> None:
    """Raise InvalidAttributesError, with the reason, for what no attribute can be called."""
    if not isinstance(name, str) or not name or len(name) > LONGEST_NAME:
        raise InvalidAttributesError(
            f"an attribute is called by 1 to {LONGEST_NAME} characters, but {str(name)[:40]!r} was given."
        )
    if not name.isprintable() or name != name.strip() or set(name) & set("`,"):
        raise InvalidAttributesError(
            f"{name!r} is no name for an attribute: it must not have commas, backquotes, control characters or space "
            "at its ends; call the column something else."
        )
