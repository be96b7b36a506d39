"""The cluster and the one process that it is compared with, both as an operator runs them."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

HOST = "127.0.0.1"
PATIENCE = 300.0


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return int(taken.getsockname()[1])


class Client:
    """One connection, kept alive."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection(HOST, port, timeout=30)

    def get(self, path: str) -> tuple[int, bytes]:
        """Return status and body; 0 where there is no answer."""
        try:
            self._connection.request("GET", path)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = http.client.HTTPConnection(HOST, self._port, timeout=30)
            return 0, b""


def wait_until_ready(port: int) -> None:
    """Wait until the service answers that it is ready."""
    client, end = Client(port), time.monotonic() + PATIENCE
    while client.get("/health/ready")[0] != 200:
        if time.monotonic() > end:
            raise TimeoutError(f"nothing is ready on port {port}")
        time.sleep(0.1)


class Cluster:
    """Ray, Serve and the application, started here and stopped at the end."""

    def __init__(self, models: Path, *, ingresses: int = 1) -> None:
        self.models = models
        self.ingresses = ingresses
        self.port = free_port()
        self.handle: Any = None

    def __enter__(self) -> Self:
        """Start all of it."""
        warnings.simplefilter("ignore")  # Ray's own
        from ray import serve  # noqa: PLC0415 - a benchmark may be asked for help without it

        from service.cluster.application import ClusterArguments, app  # noqa: PLC0415
        from service.cluster.starting import start_ray, start_serve  # noqa: PLC0415

        start_ray(num_cpus=2, object_store_memory=200 << 20)
        start_serve(HOST, self.port, logging_config={"log_level": "ERROR"})
        arguments = ClusterArguments(
            models=self.models,
            ingresses=self.ingresses,
            shard_cpus=0.1,
            ingress_cpus=0.1,
            shard_ms=400,
            hedge_ms=0,
            health_check_seconds=0.5,
            settings={"log_sample": 0, "monitor_share": 0},
        )
        serve.run(app(arguments), name="budgetrec")
        wait_until_ready(self.port)
        return self

    def __exit__(self, _kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        """Stop all of it."""
        import ray  # noqa: PLC0415
        from ray import serve  # noqa: PLC0415

        serve.shutdown()
        ray.shutdown()

    def shard(self, number: int) -> Any:
        """Return a handle of a shard, to ask it without the ingress, as that does."""
        from ray import serve  # noqa: PLC0415

        return serve.get_deployment_handle(f"shard-{number}", app_name="budgetrec").options(_by_reference=False)

    def processes_of(self, deployment: str) -> list[int]:
        """Return the processes of a deployment's replicas: Ray writes who they are into their titles."""
        wanted, found = f"ray::ServeReplica:budgetrec:{deployment}".encode(), []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                title = (place / "cmdline").read_bytes()
            except OSError:  # gone since
                continue
            if title.startswith(wanted):
                found.append(int(place.name))
        return found


class OneProcess:
    """`budgetrec serve` with one worker."""

    def __init__(self, models: Path) -> None:
        self.port = free_port()
        self._models = models

    def __enter__(self) -> Self:
        """Start it."""
        environment = os.environ | {"BUDGETREC_LOG_SAMPLE": "0", "BUDGETREC_MONITOR_SHARE": "0"}
        arguments = ["serve", "--models", str(self._models), "--port", str(self.port)]
        self._process = subprocess.Popen(
            [str(Path(sys.executable).with_name("budgetrec")), *arguments], env=environment, stderr=subprocess.DEVNULL
        )
        wait_until_ready(self.port)
        return self

    def __exit__(self, _kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()
