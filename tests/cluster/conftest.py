"""A real Ray on this machine, started once, and two small models in shards."""

import os
import socket
import warnings
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

import httpx
import numpy as np
import pytest

from greedy_core import FoldIn, VersionsFolder, build_shards
from tests.service.conftest import shop
from tests.service.running import poll

N_ITEMS, N_USERS, N_DIMS, N_SHARDS = 1500, 120, 12, 3
NEEDED = "ray"


def vectors(seed):
    rng = np.random.default_rng(seed)
    scale = np.linspace(2, 0.2, N_DIMS)
    items = (rng.standard_normal((N_ITEMS, N_DIMS)) * scale).astype(np.float32)
    users = (rng.standard_normal((N_USERS, N_DIMS)) * scale).astype(np.float32)
    users[-1] = np.nan
    return items, users


def write_shards(path, seed, n_shards=N_SHARDS):
    """Write a small model in shards: users u0, u1, ... (the last without a vector), items i0, i1, ..."""
    items, users = vectors(seed)
    rng = np.random.default_rng(seed)
    return build_shards(
        path,
        n_shards,
        items=items,
        users=users,
        item_ids=[f"i{number}" for number in range(N_ITEMS)],
        user_ids=[f"u{number}" for number in range(N_USERS)],
        titles=[None if number % 3 == 0 else f"Title of {number}" for number in range(N_ITEMS)],
        seen=(np.arange(N_USERS + 1) * 5, rng.integers(0, N_ITEMS, N_USERS * 5)),
        attributes=shop(N_ITEMS),
        directions="principal",
        max_budget=512,
        fold_in=FoldIn(regularization=0.5, alpha=5.0),
    )


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A folder with v1, which is current, v2 with other vectors, and two with too few shards or none."""
    folder = tmp_path_factory.mktemp("models")
    write_shards(folder / "v1", 1)
    write_shards(folder / "v2", 2)
    write_shards(folder / "fewer", 3, n_shards=2)
    VersionsFolder(folder).promote("v1")
    return folder


# What runs for the tests of this folder. Pytest's scope of a package is that of the whole session where there are none.
_running = ExitStack()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """End what runs with the folder's last test, so that the others have the machine."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        _running.close()


@contextmanager
def _ray():
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with warnings.catch_warnings():
        # Ray and what it imports warn of their own future.
        warnings.simplefilter("ignore")
        import ray  # noqa: PLC0415
        from ray import serve  # noqa: PLC0415

        from service.cluster.starting import start_ray  # noqa: PLC0415

        start_ray(num_cpus=2, object_store_memory=200 << 20, logging_level="ERROR")
    yield ray
    with warnings.catch_warnings():
        # It leaves sockets to the interpreter when it ends.
        warnings.simplefilter("ignore")
        serve.shutdown()
        ray.shutdown()


@pytest.fixture(scope="session")
def ray_here():
    """Ray, with two cores of its own and no dashboard."""
    if find_spec(NEEDED) is None:
        pytest.skip("ray is not here")  # its tests have said so already: they are marked with what they need
    return _running.enter_context(_ray())


class Cluster:
    """The application on Serve, and a client of it."""

    def __init__(self, address, arguments):
        self.address = address
        self.arguments = arguments
        self.client = httpx.Client(base_url=address, timeout=30.0)

    def get(self, url, **arguments):
        return self.client.get(url, **arguments)

    def post(self, url, **arguments):
        return self.client.post(url, **arguments)

    def version(self):
        return self.get("/model").json()["version"]


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture(scope="session")
def cluster(ray_here, models):
    """The service on three shards."""
    from ray import serve  # noqa: PLC0415

    from service.cluster.application import ClusterArguments, app  # noqa: PLC0415
    from service.cluster.starting import start_serve  # noqa: PLC0415

    port = free_port()
    arguments = ClusterArguments(
        models=models,
        shard_cpus=0.2,
        ingress_cpus=0.2,
        shard_ms=5000,
        hedge_ms=0,
        health_check_seconds=0.5,
        settings={"log_sample": 0, "monitor_share": 0, "admin_key": "open sesame", "unknown_user": "popular"},
    )
    start_serve("127.0.0.1", port, logging_config={"log_level": "ERROR"})
    serve.run(app(arguments), name="budgetrec")
    running = Cluster(f"http://127.0.0.1:{port}", arguments)
    poll(lambda: running.get("/health/ready").status_code == 200, "the cluster to be ready", seconds=600)
    _running.callback(running.client.close)
    return running
