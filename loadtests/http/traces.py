"""What traces cost: microseconds for each question, without them and with them, in one run.

    python -m loadtests.http.traces

A service without `traces` runs the very functions that it ran before traces were there (the class is chosen when a
worker starts), so the first line is also what it costs to have them switched off: nothing.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from greedy_core import Bundle, GreedyIndex, write_bundle
from service.answering.answering import Answering
from service.answering.question import Question
from service.answering.traced import TracedAnswering
from service.models.model import Model
from service.settings import Settings
from service.shared_memory import SharedMemory
from service.telemetry.metrics import Metrics

QUESTIONS = 4000
ROUNDS = 7


class _Nowhere(SpanExporter):
    """Takes spans and drops them: the sending is the collector's matter."""

    def export(self, spans: object) -> SpanExportResult:  # noqa: ARG002
        return SpanExportResult.SUCCESS


def _ask(answering: Answering) -> float:
    """Return the seconds that one question takes."""
    questions = [Question(10, perf_counter(), str(number % 500), 64) for number in range(QUESTIONS)]
    began = perf_counter()
    for question in questions:
        answering.answer_inline(question, None)
    return (perf_counter() - began) / QUESTIONS


def main() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((2000, 32)).astype(np.float32)
    ids = [str(number) for number in range(2000)]
    with tempfile.TemporaryDirectory() as folder:
        index = GreedyIndex.build(vectors)
        write_bundle(Path(folder) / "m", index=index, item_ids=ids, user_vectors=vectors, user_ids=ids)
        settings = Settings(models=Path(folder) / "m", monitor_share=0)
        memory = SharedMemory.make(settings, fresh=True)
        metrics = Metrics(memory.metrics)
        providers = {"traced, not sampled": TracerProvider(sampler=ALWAYS_OFF)}
        providers["traced, sampled"] = TracerProvider(sampler=ALWAYS_ON)
        providers["traced, sampled"].add_span_processor(BatchSpanProcessor(_Nowhere()))
        workers: dict[str, Answering] = {"off": Answering(settings, metrics)}
        workers |= {name: TracedAnswering(settings, provider, metrics) for name, provider in providers.items()}
        for answering in workers.values():
            answering.use(Model(Bundle.open(Path(folder) / "m")))
            _ask(answering)
        # In turns, so that a busy moment of the machine hits all of them.
        times = [[_ask(answering) for answering in workers.values()] for _ in range(ROUNDS)]
        for name, seconds in zip(workers, np.min(times, axis=0), strict=True):
            print(f"{name:20} {seconds * 1e6:6.1f} us for each question")
        for answering in workers.values():
            answering.close()


if __name__ == "__main__":
    main()
