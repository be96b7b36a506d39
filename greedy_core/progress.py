"""A progress bar for long work, when somebody asked for one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress_bar(what: str, total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how much more is done. The bar goes to stderr; without `show` there is none."""
    if not show:
        yield lambda _steps: None
        return
    # A service that never shows a bar need not load the library that draws one.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda steps: progress.advance(task, steps)
