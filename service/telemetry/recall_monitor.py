"""The recall monitor: a sample of live requests, re-run exactly, so that recall is measured and not assumed.

One thread at the lowest priority does it. After a check that took t seconds it rests for t * (1 - cap) / cap,
so it never uses more than its share of a core; what arrives meanwhile and finds the queue full is skipped, and
counted.
"""

from __future__ import annotations

import contextlib
import os
import threading
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any

from service.logs import logger
from service.telemetry.families import LAYOUT, budget_class
from service.telemetry.sampling import Sampler

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from greedy_core import Eligible
    from service.models.model import Model
    from service.settings import Settings
    from service.telemetry.metrics import Metrics

WAITING = 64
LOWEST_PRIORITY = 19


class RecallMonitor:
    """Offers come from the event loop; checks run in a thread of their own.

    Its counters are written by that thread only.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.due = Sampler(settings.monitor_share).due
        self._cap = settings.monitor_cpu
        self._metrics = metrics
        self._queue: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._skipped = LAYOUT.at("budgetrec_recall_skipped_total")
        self._checks = LAYOUT.at("budgetrec_recall_checks_total")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._work, name="recall-monitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the running check."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def offer(
        self,
        model: Model,
        query: npt.NDArray[np.float32] | None,
        excluded: npt.NDArray[np.int32] | None,
        top_k: int,
        ids: npt.NDArray[np.int32],
        granted: int,
        eligible: Eligible | None = None,
    ) -> None:
        """Queue one answered request for a check, or count it as skipped."""
        if self._queue.qsize() >= WAITING:
            self._metrics.row[self._skipped] += 1.0
            return
        self._queue.put((model, query, excluded, top_k, ids, granted, eligible))

    def check(
        self,
        model: Model,
        query: npt.NDArray[np.float32],
        excluded: npt.NDArray[np.int32] | None,
        top_k: int,
        ids: npt.NDArray[np.int32],
        granted: int,
        eligible: Eligible | None = None,
    ) -> None:
        """Re-run one request exactly, under its filter, and count its hits."""
        exact = model.index.search(query, top_k, model.n_items, excluded, None, None, eligible)
        hits = len(set(exact.ids.tolist()).intersection(ids.tolist()))
        row = self._metrics.row
        position = budget_class(granted)
        row[self._metrics.recall_hits[position]] += hits
        row[self._metrics.recall_expected[position]] += len(exact.ids)
        row[self._checks] += 1.0
        if model.arm is not None:
            self._metrics.count("budgetrec_arm_recall_hits_total", model.arm, by=hits)
            self._metrics.count("budgetrec_arm_recall_expected_total", model.arm, by=len(exact.ids))

    def rest(self, taken: float) -> float:
        """Return how long to rest after a check that took so long, to stay within the CPU cap."""
        return taken * (1 - self._cap) / self._cap

    def _work(self) -> None:
        # On Linux a thread has a priority of its own.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        while not self._stop.is_set():
            try:
                offer = self._queue.get(timeout=0.2)
            except Empty:
                continue
            began = perf_counter()
            try:
                self.check(*offer)
            except Exception as error:  # noqa: BLE001 - a failed check must not end the monitor
                logger().error("recall check failed", error=type(error).__name__, message=str(error))
            taken = perf_counter() - began
            del offer
            self._stop.wait(self.rest(taken))
