"""Starting Ray and Serve, with patience: both give up on what a busy machine takes longer for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import ray
from ray import serve
from ray.exceptions import RayActorError

if TYPE_CHECKING:
    from collections.abc import Callable

ATTEMPTS = 5
# Serve kills a proxy that is not up after five seconds, or does not answer for ten.
PROXY_SECONDS = "60"


def connect() -> None:
    """Use the cluster that RAY_ADDRESS names, or the Ray of this process; else start one on this machine."""
    if ray.is_initialized():
        return
    address = os.environ.get("RAY_ADDRESS")
    if address:
        ray.init(address=address, log_to_driver=False)
    else:
        start_ray()


def cores_there() -> float:
    """Return how many cores the cluster has to give."""
    return float(ray.cluster_resources().get("CPU", 0.0))


def start_ray(**arguments: Any) -> None:
    """Start a Ray on this machine."""
    # Its processes inherit these.
    for name in ("READY", "HEALTH"):
        os.environ.setdefault(f"RAY_SERVE_PROXY_{name}_CHECK_TIMEOUT_S", PROXY_SECONDS)

    def start() -> None:
        try:
            ray.init(include_dashboard=False, log_to_driver=False, **arguments)
        except BaseException:
            ray.shutdown()
            raise

    # What it raises after half a minute has no class of its own.
    _try(start, lambda reason: "timed out during startup" in str(reason))


def start_serve(host: str, port: int, **arguments: Any) -> None:
    """Start Serve's controller and proxies, on the Ray of this process."""

    def start() -> None:
        serve.start(http_options={"host": host, "port": port}, **arguments)

    # A controller that is there already is taken, and goes on with its proxies.
    _try(start, lambda reason: isinstance(reason, TimeoutError | RayActorError))


def _try(start: Callable[[], None], is_late: Callable[[Exception], bool]) -> None:
    for left in reversed(range(ATTEMPTS)):
        try:
            return start()
        except Exception as reason:
            if left == 0 or not is_late(reason):
                raise
    return None
