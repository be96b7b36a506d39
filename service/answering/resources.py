"""What all models of a worker share when they answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from service.answering.admission import Admission
from service.telemetry.recall_monitor import RecallMonitor

if TYPE_CHECKING:
    from service.settings import Settings
    from service.telemetry.metrics import Metrics


class Resources:
    """One admission, the threads of long searches, one recall monitor."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.admission = Admission(settings)
        self.monitor = RecallMonitor(settings, metrics)
        self.threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="search")

    def close(self) -> None:
        """Stop the threads; waits for running searches."""
        self.monitor.close()
        self.threads.shutdown()
