"""`budgetrec`: build, look at, promote, serve and ask models from the shell.

One module per family of commands. An error is one line on stderr that says what to do (a filter is
shown below it, with a mark at the place where it is wrong): exit status 2 for a command
that makes no sense, 1 for one that failed.
"""

import os
import signal
import sys

import typer

from greedy_core import GreedyCoreError, InvalidFilterError
from service.cli import bench, build, bundles, cluster, queries, recommend, server, shards, train, versions
from service.cli.console import complain, point_at
from service.version import VERSION

# Typer brings its own copy of click or uses the one installed, depending on its release; this is right for both.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    help="Recommendations that spend exactly the inner products a request gives them.",
    epilog="Start here: budgetrec demo",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for family in (train, build, shards, bundles, versions, server, queries, bench, recommend, cluster):
    family.add_to(app)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    *,
    show_version: bool = typer.Option(False, "--version", help="Print the version of budgetrec and exit."),
) -> None:
    if show_version:
        typer.echo(f"budgetrec {VERSION}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its status."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status; nothing but the unexpected escapes as an exception."""
    try:
        status = app(arguments, prog_name="budgetrec", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except UsageError as error:
        return _usage(error)
    except BrokenPipeError:
        # The reader, `head` for instance, has seen enough; keep the interpreter from complaining at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except GreedyCoreError as error:
        status = complain(str(error), status=1)
        if isinstance(error, InvalidFilterError):
            point_at(error.text, error.place)
        return status
    except OSError as error:
        return complain(error.strerror or str(error), status=1)
    return status if isinstance(status, int) else 0


def _usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "budgetrec"
    message: str = error.format_message()  # type: ignore[attr-defined]
    return complain(f"{' '.join(message.split()).rstrip('.')}; see {command} --help.", status=2)
