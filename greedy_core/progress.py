"""How far long work has come, when somebody asked: a bar for a person, a line per stage for a file or a pipe."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LINE_SECONDS = 10.0


@contextmanager
def progress_bar(what: str, total: int | None, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how much more is done. Goes to stderr; without `show` there is nothing.

    total  None where nobody knows before the end

    A stage that takes long says in a pipe now and then how far it is, whenever it counts a step.
    """
    if not show:
        yield lambda _steps: None
    elif sys.stderr.isatty():
        with _bar(what, total) as advance:
            yield advance
    else:
        began = told = time.perf_counter()
        done = 0

        def count(steps: int) -> None:
            nonlocal done, told
            done += steps
            now = time.perf_counter()
            if now - told >= _LINE_SECONDS:
                told = now
                _line(f"{what}: {done:,}{'' if total is None else f' of {total:,}'}, {now - began:.0f} s so far")

        yield count
        _line(f"{what}: {time.perf_counter() - began:.1f} s")


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    # A service that never shows a bar need not load the library that draws one.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda steps: progress.advance(task, steps)


def _line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
