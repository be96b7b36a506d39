"""What the commands print: tables and facts on stdout, progress and complaints on stderr."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

# So many characters on each side of a place are shown.
_AROUND = 60
# How often work that takes long says in a pipe how far it is.
_LINE_SECONDS = 5.0
# Ids and titles are printed as they are, so nothing in a text is markup. Piped output is wide enough for whole lines.
_PLAIN = {"markup": False, "highlight": False, "emoji": False}


def complain(message: str, *, status: int) -> int:
    """Print one line on stderr and return the exit status."""
    print(f"budgetrec: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return status


def point_at(text: str, place: int) -> None:
    """Print the line of a text that a place is in, and a mark under the place, on stderr."""
    start = text.rfind("\n", 0, place) + 1
    line = text[start:].partition("\n")[0]
    first = max(0, place - start - _AROUND)
    shown = line[first : first + 2 * _AROUND]
    print(f"  {shown}\n  {' ' * (place - start - first)}^", file=sys.stderr)  # noqa: T201


def say(text: str) -> None:
    """Print a line."""
    _console().print(text, soft_wrap=True)


def note(text: str) -> None:
    """Print a line for people, not for pipes."""
    Console(stderr=True, **_PLAIN).print(text, soft_wrap=True)  # type: ignore[arg-type]


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, aligned."""
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        say(f"{name:<{width}}  {value}")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print a table; the columns named in `right` are aligned right."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(column, justify="right" if column in right else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*(str(cell) for cell in row))
    _console().print(grid)


@contextmanager
def bytes_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar for work that is counted in bytes, if anybody is watching; yields its `progress`."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def users_bar() -> Iterator[Callable[[int, int], None]]:
    """Show users done, users per second and time left: a bar for a person, now and then a line for a pipe."""
    columns = (
        TextColumn("recommending"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]} users/s"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    began, first, told = time.monotonic(), -1, 0.0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, rate="-")

        def progress(done: int, total: int) -> None:
            nonlocal first, told
            # What earlier runs had done says nothing about the speed of this one.
            first = done if first < 0 else first
            seconds = time.monotonic() - began
            rate = (done - first) / max(seconds, 1e-9)
            bar.update(task, completed=done, total=total, rate=f"{rate:,.0f}")
            if not console.is_terminal and rate and (seconds - told > _LINE_SECONDS or done == total):
                told = seconds
                note(f"{done:,} of {total:,} users, {rate:,.0f} per second, {(total - done) / rate:.0f} s left")

        yield progress


def size(n_bytes: int) -> str:
    """Return a size as people read it."""
    value = float(n_bytes)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.2f} GB"


def _console() -> Console:
    return Console(**_PLAIN, width=None if sys.stdout.isatty() else 240)  # type: ignore[arg-type]
