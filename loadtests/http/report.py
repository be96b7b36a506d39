"""One page, complete in itself, from what the load tests measured."""

from __future__ import annotations

import base64
import html
import io
import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loadtests.http.open_loop import Measured

_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } th, td { padding: .25rem .8rem; text-align: right }
th { border-bottom: 1px solid #999 } td:first-child, th:first-child { text-align: left }
pre { background: #f4f4f4; padding: .8rem; overflow-x: auto } img { max-width: 100% }
.good { color: #19692c } .bad { color: #a3121f; font-weight: bold }
"""


@dataclass
class Scenario:
    """What a locust scenario came to; latencies in milliseconds."""

    name: str
    requests: int
    failures: int
    refused: int
    p50: float
    p99: float
    worst: float


@dataclass
class Report:
    """Everything for the page."""

    command: str
    machine: str
    capacity: str = ""
    open_loop: dict[str, Measured] = field(default_factory=dict)
    scenarios: list[Scenario] = field(default_factory=list)
    pictures: dict[str, Path] = field(default_factory=dict)

    @property
    def failures(self) -> int:
        """Requests that failed, over everything; refusals under overload are no failures."""
        return sum(each.failed for each in self.open_loop.values()) + sum(each.failures for each in self.scenarios)

    def write(self, path: Path) -> None:
        """Write the page."""
        verdict = (
            '<p class="good">No request failed.</p>'
            if self.failures == 0
            else f'<p class="bad">{self.failures} requests failed.</p>'
        )
        parts = [
            f"<p>{time.strftime('%Y-%m-%d %H:%M %Z')}, {html.escape(self.machine)}.</p>",
            f"<p><code>{html.escape(self.command)}</code></p>",
            verdict,
            f"<h2>One worker, never idle</h2><pre>{html.escape(self.capacity)}</pre>",
            "<h2>On a timetable</h2>",
            "<p>Open loop: Poisson arrivals that wait for no answer; latency from the timetable, at the client.</p>",
        ]
        for name, measured in self.open_loop.items():
            parts.append(f"<h3>{html.escape(name)}</h3><pre>{html.escape(measured.table())}</pre>")
        if self.open_loop:
            parts.append(_image(draw_latency(self.open_loop), "Latency against budget"))
        if self.scenarios:
            parts.append(f"<h2>Scenarios</h2><p>locust, through nginx. Latency in ms.</p>{self._scenario_table()}")
        for name, picture in self.pictures.items():
            parts.append(f"<h2>{html.escape(name)}</h2>{_image(picture.read_bytes(), name)}")
        body = "\n".join(parts)
        path.write_text(
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>budgetrec under load</title>'
            f"<style>{_CSS}</style><h1>budgetrec under load</h1>\n{body}\n</html>\n"
        )

    def _scenario_table(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("", "requests", "failed", "refused", "p50", "p99", "worst"))
        rows = "".join(
            f"<tr><td>{each.name}</td><td>{each.requests}</td>"
            f'<td class="{"bad" if each.failures else "good"}">{each.failures}</td><td>{each.refused}</td>'
            f"<td>{each.p50:g}</td><td>{each.p99:g}</td><td>{each.worst:.0f}</td></tr>"
            for each in self.scenarios
        )
        return f"<table><tr>{head}</tr>{rows}</table>"


def machine() -> str:
    """Say on what the numbers were measured, and how busy it was with other things."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    busy = os.getloadavg()[0]
    return f"{os.cpu_count()} cores ({model}), load {busy:.1f} before the start, Python {platform.python_version()}"


def draw_latency(measured: Mapping[str, Measured]) -> bytes:
    """Draw latency against budget, one colour per run: median solid, 99th percentile dashed. Returns a PNG."""
    figure = Figure(figsize=(8, 4.5), dpi=110)
    axes = figure.add_subplot()
    for i, (name, each) in enumerate(measured.items()):
        values = each.by_budget((50.0, 99.0))
        for place, style in ((0, "-"), (1, "--")):
            axes.plot(
                list(values),
                [row[place] * 1e3 for row in values.values()],
                style,
                marker="o",
                color=f"C{i}",
                label=f"{name}, {'median' if place == 0 else 'p99'}",
            )
    axes.set(xscale="log", yscale="log", xlabel="budget (inner products)", ylabel="latency at the client (ms)")
    axes.xaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%d"))
    axes.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _image(png: bytes, title: str) -> str:
    data = base64.b64encode(png).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{data}">'
