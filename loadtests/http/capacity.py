"""What one worker can do at most, and what it weighs: the numbers that sizing starts from."""

from __future__ import annotations

import os
import re
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loadtests.http.fleet import need_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadtests.http.fleet import Replica

# Few enough connections that nothing is degraded while the worker is never idle.
_CONNECTIONS = 4
_SCRIPT = """
request = function()
  return wrk.format("GET", "/recommend?user_id=" .. math.random(1000) .. "&budget=%d")
end
"""


@dataclass(frozen=True)
class Saturated:
    """One worker that is never idle, at one budget."""

    budget: int
    requests_per_second: float
    products_per_second: float


def saturate(replica: Replica, budget: int, directory: Path, *, attempts: int = 3) -> Saturated:
    """Return the best of some attempts: what else the machine does can only take away."""
    found = [_attempt(replica, budget, directory) for _ in range(attempts)]
    return max(found, key=lambda each: each.requests_per_second)


def _attempt(replica: Replica, budget: int, directory: Path, *, seconds: int = 2) -> Saturated:
    """Let wrk keep a replica busy at one budget; products are those that the replica says it spent."""
    script = directory / "wrk.lua"
    script.write_text(_SCRIPT % budget)
    before = spent(replica)
    done = subprocess.run(
        [need_command("wrk"), "-t1", f"-c{_CONNECTIONS}", f"-d{seconds}s", "-s", str(script), replica.url],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"(\d+) requests in ([\d.]+)s", done.stdout)
    if found is None or "Non-2xx" in done.stdout:
        raise RuntimeError(f"wrk at budget {budget} did not go as it should:\n{done.stdout}{done.stderr}")
    elapsed = float(found[2])
    return Saturated(budget, int(found[1]) / elapsed, (spent(replica) - before) / elapsed)


def spent(replica: Replica) -> float:
    """Return the inner products that a replica has spent since it started."""
    with urllib.request.urlopen(f"{replica.url}/metrics", timeout=5) as response:
        for line in response.read().decode().splitlines():
            if line.startswith("budgetrec_products_spent_total "):
                return float(line.split()[1])
    raise RuntimeError("The metrics do not say how many products were spent.")


@dataclass(frozen=True)
class Memory:
    """Megabytes of a process group: what is its own, and what is shared by mapping files such as the model."""

    own: float
    mapped: float


def memory(replica: Replica) -> Memory:
    """Add up the group's processes by /proc/*/smaps_rollup; PSS shares out a page among those who map it."""
    own = mapped = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) != replica.process.pid:
                continue
            text = (process / "smaps_rollup").read_text()
        except (OSError, ProcessLookupError):
            continue
        fields = {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
        own += fields["Pss_Anon"] / 1024
        mapped += (fields["Pss_File"] + fields["Pss_Shmem"]) / 1024
    return Memory(own, mapped)


def table(rows: Sequence[Saturated], weight: Memory) -> str:
    """Write the measurements as text."""
    lines = [f"{'budget':>8}{'requests/s':>12}{'products/s':>14}"]
    lines += [
        f"{row.budget:>8}{row.requests_per_second:>12,.0f}{row.products_per_second / 1e6:>12.2f} M" for row in rows
    ]
    lines.append(
        f"memory of the supervisor and one worker: {weight.own:.0f} MB own, {weight.mapped:.0f} MB mapped files"
    )
    return "\n".join(lines)
