"""The command line: `python -m loadtests.index.paper [--quick | --tiny]`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from loadtests.index.baselines.build import compiled
from loadtests.index.paper import plan as plans
from loadtests.index.paper.results import Cache
from loadtests.index.paper.run import run, write

OUT = Path(__file__).resolve().parent / "out"


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    options = argparse.ArgumentParser(
        prog="python -m loadtests.index.paper",
        description="Run the experiments of the paper's section 5 and draw its figures 3 to 6.",
        epilog="A run that was stopped goes on where it was: results are kept in .cache/paper.",
    )
    size = options.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", dest="size", const="quick", help="a few minutes, smaller data")
    size.add_argument("--tiny", action="store_const", dest="size", const="tiny", help="seconds, to see that it works")
    options.add_argument("--figures", type=int, nargs="+", choices=(3, 4, 5, 6), help="only these")
    options.add_argument("--data", nargs="+", choices=plans.KINDS, metavar="KIND", help=f"only these: {plans.KINDS}")
    options.add_argument(
        "--interactions",
        type=Path,
        nargs="+",
        metavar="FILE.npz",
        help="factorise these (arrays user, item and perhaps rating) instead of generated interactions",
    )
    options.add_argument("--out", type=Path, default=OUT, help="where figures and tables go (default: %(default)s)")
    options.add_argument("--no-progress", action="store_true", help="no bar")
    options.set_defaults(size="full")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run, write, and say where."""
    options = parser().parse_args(arguments)
    for path in options.interactions or []:
        if not path.is_file():
            print(f"There is no file {path}; expected a .npz with arrays user and item.", file=sys.stderr)
            return 2
    plan = plans.make(options.size, interactions=options.interactions)
    plan = plan.only(figures=options.figures, kinds=options.data)
    if not plan.panels:
        print("No figure shows that data; figures 3 and 4 show interactions, 5 and 6 synthetic data.", file=sys.stderr)
        return 2
    compiled()
    started, cache = time.monotonic(), Cache()
    results, refusals = run(plan, cache=cache, progress=not options.no_progress)
    minutes = (time.monotonic() - started) / 60
    given = sys.argv[1:] if arguments is None else arguments
    command = " ".join(["python -m loadtests.index.paper", *given])
    kept = "" if cache.stored >= len(results) else ", a part of it kept from earlier runs,"
    made = f"`{command}`, {time.strftime('%Y-%m-%d')}, {minutes:.0f} min{kept}"
    write(plan, results, refusals, options.out, made=made)
    print(f"{len(results)} settings in {minutes:.1f} minutes; the summary is {options.out / 'summary.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
