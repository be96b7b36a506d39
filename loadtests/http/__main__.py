"""`make loadtest`: the whole set, on loopback, in a few minutes, with a report page.

1. one process with one worker: what it can do at most, then requests on a timetable
2. three replicas behind nginx, watched by Prometheus, the same timetable
3. the same fleet, locust's five scenarios: steady, ramp, burst, reload, kill
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from loadtests.http import capacity, open_loop, wall
from loadtests.http.fleet import REPOSITORY, Fleet, need_command, start_replica
from loadtests.http.models import SECOND, make_models
from loadtests.http.processes import free_port
from loadtests.http.report import Report, Scenario, draw_latency, machine
from loadtests.http.traffic import equal_shares

BUDGETS = (1, 4, 16, 64, 256, 1024, 4096)


def main() -> int:
    """Run the set; the exit code is 1 if a request failed."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.http", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out", help="where the report goes")
    parser.add_argument("--rate", type=float, default=250.0, help="requests per second on the timetable")
    parser.add_argument("--seconds", type=float, default=12.0, help="length of each timetable and scenario")
    parser.add_argument("--replicas", type=int, default=3, help="replicas behind nginx")
    parser.add_argument("--pictures", type=Path, help="also write the pictures, as PNG, into this folder")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    report = Report(shlex.join(["python", "-m", "loadtests.http", *sys.argv[1:]]), machine())
    print(report.machine, flush=True)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        models = make_models(directory / "models")
        one_process(report, directory, models, options)
        many_replicas(report, directory, models, options)
    page = options.out / "report.html"
    report.write(page)
    if options.pictures:
        (options.pictures / "latency.png").write_bytes(draw_latency(report.open_loop))
        shutil.copy(report.pictures["The dashboard"], options.pictures / "dashboard.png")
    print(f"\n{report.failures} requests failed; the report is {page}")
    return 1 if report.failures else 0


def plan(options: argparse.Namespace) -> list[open_loop.Arrival]:
    return open_loop.timetable(rate=options.rate, seconds=options.seconds, mix=equal_shares(*BUDGETS))


def show(report: Report, name: str, measured: open_loop.Measured) -> None:
    report.open_loop[name] = measured
    print(f"\n{name}\n{measured.table()}", flush=True)


def one_process(report: Report, directory: Path, models: Path, options: argparse.Namespace) -> None:
    replica = start_replica(directory, models, port=free_port())
    try:
        open_loop.run(replica.url, open_loop.timetable(rate=options.rate, seconds=2))  # warm
        rows = [capacity.saturate(replica, budget, directory) for budget in BUDGETS if budget >= 64]
        report.capacity = capacity.table(rows, capacity.memory(replica))
        print(f"one worker, never idle\n{report.capacity}", flush=True)
        show(report, "one process", open_loop.run(replica.url, plan(options)))
    finally:
        replica.process.stop()


def many_replicas(report: Report, directory: Path, models: Path, options: argparse.Namespace) -> None:
    # The monitor re-runs more than it would in production, so that half a minute is enough for a recall.
    env = {"BUDGETREC_MONITOR_SHARE": "0.2"}
    with Fleet(directory, [models] * options.replicas, env=env, with_prometheus=True) as fleet:
        assert fleet.prometheus is not None
        started = time.time()
        show(report, f"nginx and {options.replicas} replicas", open_loop.run(fleet.url, plan(options)))
        for name in ("steady", "ramp", "burst", "reload", "kill"):
            deed = ""
            if name == "reload":
                deed = shlex.join([need_command("budgetrec"), "promote", SECOND, "--models", str(models)])
            if name == "kill":
                deed = f"kill -9 -{fleet.replicas[-1].process.pid}"
            report.scenarios.append(locust(fleet.url, name, deed, options.seconds))
            print(f"{name:>8}: {report.scenarios[-1]}", flush=True)
            if name == "kill":
                fleet.restart(fleet.replicas[-1])
        picture = options.out / "dashboard.png"
        wall.draw(fleet.prometheus, picture, seconds=time.time() - started)
        report.pictures["The dashboard"] = picture


def locust(url: str, name: str, halfway: str, seconds: float) -> Scenario:
    """Run one scenario and sum it up; locust itself failing is an error."""
    users, pace = (40, 25.0) if name == "burst" else (20, 12.0)
    command = [
        *(need_command("locust"), "--locustfile", str(Path(__file__).with_name("locustfile.py"))),
        *("--headless", "--json", "--only-summary", "--host", url, "--scenario", name),
        *("--seconds", str(seconds), "--most-users", str(users), "--pace", str(pace), "--halfway", halfway),
    ]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=seconds * 5 + 60
    )
    if done.returncode not in {0, 1} or not done.stdout.lstrip().startswith("["):
        raise RuntimeError(f"locust ended with {done.returncode}:\n{done.stderr}")
    return summary(name, json.loads(done.stdout))


def summary(name: str, rows: list[dict[str, Any]]) -> Scenario:
    """Add up locust's rows, one per budget and one for refusals."""
    answered = [row for row in rows if row["name"] != "refused"]
    times = sorted(
        float(milliseconds)
        for row in answered
        for milliseconds, count in row["response_times"].items()
        for _ in range(count)
    )
    return Scenario(
        name=name,
        requests=sum(row["num_requests"] for row in rows),
        failures=sum(row["num_failures"] for row in rows),
        refused=sum(row["num_requests"] for row in rows if row["name"] == "refused"),
        p50=times[len(times) // 2],
        p99=times[int(len(times) * 0.99)],
        worst=times[-1],
    )


if __name__ == "__main__":
    sys.exit(main())
