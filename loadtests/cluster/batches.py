"""A night's work: users per second in one process, on Ray with one and two workers, and by Spark where it is here."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from greedy_core import Order, write_recommendations

if TYPE_CHECKING:
    from pathlib import Path

    from greedy_core import Bundle

BUDGET, TOP_K = 256, 10


def measure(bundle: Bundle, folder: Path) -> None:
    """Print the table."""
    order = Order(None, TOP_K, BUDGET)
    print(f"| {bundle.n_users:,} users, top {TOP_K} | seconds | users per second | recall@10 |")
    print("|---|---:|---:|---:|")
    for threads in (1, 2):
        _tell(
            bundle, f"one process, {threads} threads, budget {BUDGET}", _seconds(bundle, folder, order, threads), None
        )
    if find_spec("ray") is not None:
        import ray  # noqa: PLC0415

        from service.cluster.recommending import parts_on_ray  # noqa: PLC0415
        from service.cluster.starting import start_ray  # noqa: PLC0415

        start_ray(num_cpus=2, object_store_memory=200 << 20)
        for workers in (1, 2):
            began = time.perf_counter()
            path = folder / f"ray-{workers}.parquet"
            write_recommendations(bundle, path, order, elsewhere=parts_on_ray(workers))
            _tell(bundle, f"Ray Data, {workers} workers, budget {BUDGET}", time.perf_counter() - began, None)
            if path.read_bytes() != (folder / "threads-1.parquet").read_bytes():
                raise RuntimeError("Ray wrote another file")
        ray.shutdown()
    if find_spec("pyspark") is not None:
        _tell(bundle, "Spark's recommendForAllUsers, 2 threads, exact", _by_spark(bundle), 1.0)


def _tell(bundle: Bundle, what: str, seconds: float, recall: float | None) -> None:
    found = _recall(bundle) if recall is None else recall
    print(f"| {what} | {seconds:.1f} | {bundle.n_users / seconds:,.0f} | {found:.3f} |", flush=True)


def _seconds(bundle: Bundle, folder: Path, order: Order, threads: int) -> float:
    began = time.perf_counter()
    write_recommendations(bundle, folder / f"threads-{threads}.parquet", order, threads=threads)
    return time.perf_counter() - began


def _recall(bundle: Bundle) -> float:
    users = bundle.user_vectors
    assert users is not None
    hits = []
    for user in range(100):
        exact = bundle.index.search(users[user], TOP_K, bundle.n_items).ids
        found = bundle.index.search(users[user], TOP_K, BUDGET, None, None, bundle.user_remembered(user)).ids
        hits.append(len(np.intersect1d(exact, found)) / TOP_K)
    return float(np.mean(hits))


def _by_spark(bundle: Bundle) -> float:
    """Return the seconds of the same work by Spark: blocks of both sides are multiplied, and the best kept."""
    from pyspark.ml.recommendation import ALSModel  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    users = bundle.user_vectors
    assert users is not None
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        frames = [
            session.createDataFrame(
                [(number, row) for number, row in enumerate(vectors.tolist())], "id int, features array<float>"
            ).cache()
            for vectors in (users, bundle.index.items)
        ]
        for frame in frames:
            frame.count()
        java = session.sparkContext._jvm.org.apache.spark.ml.recommendation.ALSModel(  # noqa: SLF001 - Spark has no other way
            "als",
            users.shape[1],
            *(frame._jdf for frame in frames),  # noqa: SLF001
        )
        model = ALSModel(java.setUserCol("user").setItemCol("item"))
        began = time.perf_counter()
        model.recommendForAllUsers(TOP_K).write.format("noop").mode("overwrite").save()
        return time.perf_counter() - began
    finally:
        session.stop()
