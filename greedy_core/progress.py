"""A progress bar for long work, when somebody asked for one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress_bar(what: str, total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how much more is done. The bar goes to stderr; without `show` there is none."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not show) as progress:
        task = progress.add_task(what, total=total)
        yield lambda steps: progress.advance(task, steps)
