"""`make chaos`: run the suite, show how it goes, and end with a table of what was done and what was wrong."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from loadtests.chaos.parts import PARTS, run_part
from loadtests.chaos.trial import LONG, QUICK, SHORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadtests.chaos.trial import Amounts, Trial

_EXAMPLES = """examples:
  python -m loadtests.chaos                            everything, about four minutes
  python -m loadtests.chaos --only fuzzing --seed 7    one part, with other random choices
  python -m loadtests.chaos --only swaps --only kills  some parts
  python -m loadtests.chaos --quick                    as the tests run it
  python -m loadtests.chaos --long                     1,000,000 requests, 10,000 bundles, an hour of soak
  make chaos ARGS="--only overload"

parts:
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; the exit status is 1 if anything was wrong."""
    options = parse(arguments)
    _allow_many_connections()
    console = Console()
    amounts = LONG if options.long else QUICK if options.quick else SHORT
    names = [name for name in PARTS if not options.only or name in options.only]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        trials = show(console, names, amounts, Path(directory), options.seed)
    console.print(table(trials))
    for trial in trials:
        explain(console, trial)
    wrong = sum(trial.faults.total() for trial in trials)
    minutes, seconds = divmod(time.monotonic() - began, 60)
    verdict = f"[bold red]{wrong} faults" if wrong else "[bold green]nothing wrong"
    console.print(f"{verdict}[/] after {minutes:.0f} min {seconds:.0f} s, seed {options.seed}.")
    return 1 if wrong else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parts = "\n".join(f"  {name:<11}{part.title}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.chaos",
        description="Do to the service, on loopback, what must not harm it.",
        epilog=_EXAMPLES + parts,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=list(PARTS), help="run this part; may be given again")
    parser.add_argument("--seed", type=int, default=0, help="for every random choice (default 0)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--long", action="store_true", help="the whole amount, some hours")
    size.add_argument("--quick", action="store_true", help="the small amount of the tests")
    return parser.parse_args(arguments)


def show(console: Console, names: list[str], amounts: Amounts, directory: Path, seed: int) -> list[Trial]:
    """Run the parts under a progress bar; what is over stays on the screen as a line."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
    trials = []
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(names))
        for name in names:

            def step(text: str, name: str = name) -> None:
                progress.update(bar, description=f"[bold]{name}[/]: {text}")

            step(PARTS[name].title)
            trial = run_part(name, amounts, directory, seed=seed, on_step=step)
            trials.append(trial)
            mark = f"[red]{trial.faults.total()} faults" if trial.faults else "[green]good"
            progress.console.print(f"  {name:<10} {trial.seconds:6.1f} s  {mark}[/]")
            progress.advance(bar)
    return trials


def table(trials: Sequence[Trial]) -> Table:
    """Show what was done, how many, how long, and the faults found."""
    grid = Table(title="What was done to the service, and what it made of it", title_justify="left")
    grid.add_column("part", no_wrap=True)
    grid.add_column("what was done")
    grid.add_column("seconds", justify="right")
    grid.add_column("faults", justify="right")
    for trial in trials:
        deeds = ", ".join(f"{count:,} {what}" for what, count in trial.done.items())
        faults = trial.faults.total()
        grid.add_row(
            trial.name,
            f"{PARTS[trial.name].title}\n[dim]{deeds}[/]",
            f"{trial.seconds:.1f}",
            f"[bold red]{faults}[/]" if faults else "[green]0[/]",
        )
    return grid


def explain(console: Console, trial: Trial) -> None:
    """Print a part's figures and, in full, its faults."""
    if not trial.figures and not trial.faults:
        return
    console.print(f"\n[bold]{trial.name}[/]")
    for figure in trial.figures:
        console.print(f"  [dim]·[/] {figure}", markup=True, highlight=False)
    for fault, count in trial.faults.items():
        console.print(f"  [red]✗[/] {fault}" + (f" [dim]({count} times)[/]" if count > 1 else ""), highlight=False)
        for detail in trial.details.get(fault, ()):
            console.print(f"      {detail}", markup=False, highlight=False, style="dim")


def _allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))


if __name__ == "__main__":
    sys.exit(main())
