"""Log lines: structured, sampled, and free of secrets.

What may be logged is listed where it is logged: route, status, budget, spent, times, request id. Query strings,
headers, keys and vectors are never passed to a logger.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from service.settings import Settings


def configure(settings: Settings, *, worker: int | None = None) -> None:
    """Send structlog's and the standard library's lines to stderr in one shape."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    if worker is not None:
        shared.append(_with_worker(worker))
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _Stderr(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # uvicorn greets at level info and warns of every odd request; what an operator wants to know of that is said here.
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


def logger() -> Any:
    """Return the service's logger."""
    return structlog.get_logger("budgetrec")


class _Stderr:
    """Writes lines to whatever stderr is at the time, with one call each, so that lines of workers do not mix."""

    def msg(self, line: str) -> None:
        """Write one line."""
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    debug = info = warning = error = exception = critical = log = msg


def _with_worker(worker: int) -> Any:
    def add(_logger: Any, _name: str, event: dict[str, Any]) -> dict[str, Any]:
        event["worker"] = worker
        return event

    return add
