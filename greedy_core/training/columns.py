"""Which column of a file is what: by the name given, or by a usual one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from greedy_core.errors import InvalidEventsError
from greedy_core.formats.attributes import ID_COLUMNS
from greedy_core.formats.names import listed
from greedy_core.formats.separated import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Files that are read as tables.
TABLES = (".parquet", *SUFFIXES)
# Tried in this order where nobody names a column.
USUAL_USERS = ("user_id", "user", "userId", "userid", "customer_id", "visitor_id")
# In a table of events, `id` is more often that of the event.
USUAL_ITEMS = (*(name for name in ID_COLUMNS if name != "id"), "id")
# What is told of columns with such names that nobody asked for.
_WORTH_NAMING = {
    "time": (
        ("timestamp", "time", "event_time", "date", "datetime", "at", "ts"),
        "the model would be measured on what people did later",
    ),
    "rating": (("rating", "ratings", "stars"), "low grades would not count as liked"),
}


class Columns(NamedTuple):
    """The names of the columns that are read."""

    user: str
    item: str
    weight: str | None
    rating: str | None
    time: str | None

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys(name for name in self if name is not None))


class Wanted(NamedTuple):
    """What the caller named; None where nothing was."""

    user: str | None = None
    item: str | None = None
    weight: str | None = None
    rating: str | None = None
    time: str | None = None

    def among(self, path: Path, names: Sequence[str]) -> Columns:
        """Return the columns that are meant. Raises InvalidEventsError that names what there is."""
        columns = Columns(
            find_column(path, names, self.user, USUAL_USERS, "user"),
            find_column(path, names, self.item, USUAL_ITEMS, "item"),
            *(
                None if name is None else find_column(path, names, name, (), what)
                for what, name in (("weight", self.weight), ("rating", self.rating), ("time", self.time))
            ),
        )
        if columns.user == columns.item:
            raise InvalidEventsError(f"users and items are both read from {columns.user} of {path}; name two columns.")
        return columns

    def notes(self, path: Path, names: Sequence[str]) -> list[str]:
        """Return sentences on columns that look useful, and that the caller did not name."""
        told = []
        for what, (usual, gain) in _WORTH_NAMING.items():
            found = next((name for name in names if _plain(name) in map(_plain, usual)), None)
            if getattr(self, what) is None and found is not None and found not in self:
                option = f"--{what} {listed([found])}"
                told.append(f"{path.name} has a column {found} that is not used: with {option} {gain}.")
        return told


def find_column(path: Path, names: Sequence[str], wanted: str | None, usual: Sequence[str], what: str) -> str:
    """Return the column that is meant, or say which there are."""
    there = listed(names)
    if wanted is None:
        found = next((name for like in usual for name in names if _plain(name) == _plain(like)), None)
        if found is None:
            raise InvalidEventsError(
                f"{path} has no column called {usual[0]}; name the column of {what}s with --{what}: {there}"
                f"{_first_line(path)}."
            )
        return found
    if wanted not in names:
        raise InvalidEventsError(f"{path} has no column called {wanted}; it has: {there}.")
    if list(names).count(wanted) > 1:
        raise InvalidEventsError(f"{path} has two columns called {wanted}; rename one of them.")
    return wanted


def _plain(name: str) -> str:
    """Return a name without what people write in several ways: userId, User ID and user_id are one."""
    return re.sub(r"[\s_-]", "", name).lower()


def _first_line(path: Path) -> str:
    return " (what its first line says)" if path.name.lower().endswith(SUFFIXES) else ""
