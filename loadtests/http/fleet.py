"""A fleet on loopback: replicas of the service, nginx in front of them, Prometheus beside them.

nginx runs the configuration of `deploy/nginx` and Prometheus the rules of `deploy/prometheus`; only the
addresses are replaced. All parts listen on free ports of 127.0.0.1 and write below one directory.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from loadtests.http.processes import Running, answers, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
# Debian keeps servers where an ordinary user's PATH does not look.
_PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def find_command(name: str) -> str | None:
    """Return the path of a command: of this Python's environment, of PATH or of the system's own folders."""
    return shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), _PLACES]))


def need_command(name: str) -> str:
    """Return the path of a command that must be there."""
    path = find_command(name)
    if path is None:
        raise FileNotFoundError(f"The command {name} is missing; deploy/install-packages.sh installs it.")
    return path


@dataclass
class Replica:
    """One process group of the service."""

    port: int
    models: Path
    process: Running

    @property
    def url(self) -> str:
        """Where the replica listens."""
        return f"http://127.0.0.1:{self.port}"


def start_replica(directory: Path, models: Path, *, port: int, env: Mapping[str, str] | None = None) -> Replica:
    """Start one replica on `models` and wait until it is ready."""
    process = Running(
        [need_command("budgetrec"), "serve"],
        log=directory / f"replica-{port}.log",
        env={
            "BUDGETREC_MODELS": str(models),
            "BUDGETREC_HOST": "127.0.0.1",
            "BUDGETREC_PORT": str(port),
            **(env or {}),
        },
    )
    replica = Replica(port, models, process)
    process.wait_until(lambda: answers(f"{replica.url}/health/ready"), seconds=60)
    return replica


def start_nginx(directory: Path, ports: Sequence[int]) -> tuple[Running, int]:
    """Start nginx before replicas on `ports`; return it and the port it listens on."""
    conf = directory / "nginx"
    shutil.copytree(DEPLOY / "nginx", conf, dirs_exist_ok=True)
    port = free_port()
    (conf / "listen.conf").write_text(f"listen 127.0.0.1:{port};\n")
    options = "max_fails=2 fail_timeout=2s"
    (conf / "replicas.conf").write_text("".join(f"server 127.0.0.1:{each} {options};\n" for each in ports))
    # Workers of a root nginx would become nobody and could not write below the directory.
    run_as = ["user root;"] if os.geteuid() == 0 else []
    process = Running(
        [
            need_command("nginx"),
            *("-p", f"{conf}/", "-c", f"{conf}/nginx.conf"),
            *("-g", " ".join(["daemon off;", *run_as])),
        ],
        log=directory / "nginx.log",
    )
    process.wait_until(lambda: answers(f"http://127.0.0.1:{port}/nginx/health"))
    return process, port


class Prometheus:
    """A real Prometheus with the repository's rules, scraping `ports` every second."""

    def __init__(self, directory: Path, ports: Sequence[int]) -> None:
        self.port = free_port()
        targets = directory / "targets.json"
        targets.write_text(json.dumps([{"targets": [f"127.0.0.1:{each}" for each in ports]}]))
        configuration = directory / "prometheus.yml"
        # Five seconds of scrapes are enough for a rate, so that a test sees results soon.
        configuration.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(DEPLOY / "prometheus" / "rules" / "*.yml")],
                    "scrape_configs": [{"job_name": "budgetrec", "file_sd_configs": [{"files": [str(targets)]}]}],
                }
            )
        )
        self.process = Running(
            [
                need_command("prometheus"),
                f"--config.file={configuration}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=warn",
            ],
            log=directory / "prometheus.log",
        )
        self.process.wait_until(lambda: answers(f"{self.url}/-/ready"))

    @property
    def url(self) -> str:
        """Where Prometheus listens."""
        return f"http://127.0.0.1:{self.port}"

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that `expression` gives now."""
        return self._ask("query", query=expression)

    def query_range(self, expression: str, *, seconds: float, step: float = 1.0) -> list[dict[str, Any]]:
        """Return the series that `expression` gave over the last `seconds`."""
        now = time.time()
        return self._ask("query_range", query=expression, start=now - seconds, end=now, step=step)

    def _ask(self, call: str, **parameters: object) -> list[dict[str, Any]]:
        form = urllib.parse.urlencode(parameters).encode()
        with urllib.request.urlopen(f"{self.url}/api/v1/{call}", data=form, timeout=10) as response:
            answer = json.load(response)
        result = answer["data"]["result"]
        # A scalar comes as one pair; callers want series.
        return [{"metric": {}, "value": result}] if answer["data"]["resultType"] == "scalar" else list(result)


@dataclass
class Fleet:
    """One replica per models folder, nginx and, if asked for, Prometheus; leaves nothing running."""

    directory: Path
    models: Sequence[Path]
    env: Mapping[str, str] = field(default_factory=dict)
    with_prometheus: bool = False

    def __enter__(self) -> Self:
        self.replicas: list[Replica] = []
        self.nginx: Running | None = None
        self.prometheus: Prometheus | None = None
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            for models in self.models:
                self.replicas.append(start_replica(self.directory, models, port=free_port(), env=self.env))
            ports = [replica.port for replica in self.replicas]
            self.nginx, self.port = start_nginx(self.directory, ports)
            if self.with_prometheus:
                self.prometheus = Prometheus(self.directory, ports)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        parts = [
            self.nginx,
            self.prometheus and self.prometheus.process,
            *(each.process for each in self.replicas),
        ]
        for part in parts:
            if part is not None:
                part.stop()

    @property
    def url(self) -> str:
        """Where nginx listens."""
        return f"http://127.0.0.1:{self.port}"

    def restart(self, replica: Replica) -> None:
        """Start a replica again on the port it had."""
        fresh = start_replica(self.directory, replica.models, port=replica.port, env=self.env)
        self.replicas[self.replicas.index(replica)] = fresh
