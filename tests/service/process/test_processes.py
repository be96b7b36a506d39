"""Supervisor and workers for real: many workers, signals, sudden death, swaps under load."""

import itertools
import json
import os
import signal
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from service.process.supervisor import bind
from service.settings import Settings
from tests.service.conftest import write_model
from tests.service.raw import RawConnection
from tests.service.running import metric, poll, server


class Load:
    """Callers that ask without pause, each on its own connection, and note every answer."""

    def __init__(self, address, callers=4):
        self._address = address
        self._stop = threading.Event()
        self.statuses = []
        self.models = []
        self.errors = []
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(callers)]

    def _ask(self, number):
        users = itertools.cycle(range(8 + number, 190, 7))
        with httpx.Client(base_url=self._address, timeout=20) as client:
            while not self._stop.is_set():
                try:
                    response = client.get(f"/recommend?user_id=u{next(users)}&budget=64")
                except httpx.HTTPError as error:
                    self.errors.append(error)
                    continue
                self.statuses.append(response.status_code)
                if response.status_code == 200:
                    self.models.append(response.json()["model"])

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        poll(lambda: len(self.statuses) > 50, "the load to begin")
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def two_workers(folder, tmp_path):
    with server(folder.path, tmp_path / "log", workers=2, poll_seconds=0.05) as running:
        yield running


def test_one_scrape_shows_all_workers(two_workers):
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(two_workers.fresh, ["/recommend?user_id=u9&budget=64"] * 100))
    assert {response.status_code for response in responses} == {200}
    assert len({response.text.partition('"search_us"')[0] for response in responses}) == 1
    ids = {response.headers["x-request-id"].partition("-")[0] for response in responses}
    name = 'budgetrec_requests_total{route="recommend",status="200"}'
    for _ in range(10):
        text = two_workers.fresh("/metrics").text
        assert metric(text, name) == 100
        assert metric(text, "budgetrec_workers") == 2
    assert 1 <= len(ids) <= 2


def test_a_killed_worker_is_replaced_and_its_counts_stay(two_workers):
    for _ in range(20):
        two_workers.fresh("/recommend?user_id=u9&budget=64")
    name = 'budgetrec_requests_total{route="recommend",status="200"}'
    assert two_workers.metric(name) == 20
    victims = two_workers.workers()
    os.kill(victims[0], signal.SIGKILL)
    poll(lambda: victims[0] not in two_workers.workers() and len(two_workers.workers()) == 2, "a new worker")
    poll(lambda: metric(two_workers.fresh("/metrics").text, "budgetrec_workers") == 2, "it to serve")
    os.kill(victims[1], signal.SIGKILL)
    poll(lambda: victims[1] not in two_workers.workers() and len(two_workers.workers()) == 2, "another one")
    assert metric(two_workers.fresh("/metrics").text, name) == 20
    assert two_workers.fresh("/recommend?user_id=u9&budget=64").status_code == 200
    assert len(two_workers.logged("worker died")) == 2


def test_killing_a_worker_under_load_loses_its_own_connections_only(two_workers):
    with Load(two_workers.address) as load:
        os.kill(two_workers.workers()[0], signal.SIGKILL)
        seen = len(load.statuses)
        poll(lambda: len(two_workers.workers()) == 2, "a new worker")
        poll(lambda: len(load.statuses) > seen + 100, "the load to go on")
    assert set(load.statuses) == {200}
    # Each caller had one connection, and asks again on a new one.
    assert len(load.errors) <= 4


def test_swaps_under_load_fail_no_request(two_workers, folder):
    with Load(two_workers.address) as load:
        for version in ("v2", "v1", "v2"):
            outcome = httpx.post(two_workers.address + "/admin/reload", json={"version": version}, timeout=20).json()
            assert outcome["version"] == version
            assert outcome["workers"] == {"total": 2, "serving": 2}
        refused = httpx.post(two_workers.address + "/admin/reload", json={"version": "corrupt"}, timeout=20)
        assert refused.status_code == 409
        rolled_back = httpx.post(two_workers.address + "/admin/rollback", timeout=20)
        assert rolled_back.status_code == 200, rolled_back.text
        assert rolled_back.json()["version"] == "v1"
        seen = len(load.models)
        poll(lambda: len(load.models) > seen + 50, "answers after the last swap")
    assert load.errors == []
    assert set(load.statuses) == {200}
    assert set(load.models) == {"v1", "v2"}
    assert set(load.models[-20:]) == {"v1"}


def test_sighup_tries_the_model_anew(tmp_path, model):
    write_model(tmp_path / "only", seed=5)
    with server(tmp_path / "only", tmp_path / "log", workers=2, poll_seconds=0.05) as running:
        (tmp_path / "only").rename(tmp_path / "old")
        write_model(tmp_path / "next", seed=6)
        (tmp_path / "next").rename(tmp_path / "only")
        running.signal(signal.SIGHUP)
        poll(lambda: {running.fresh("/model").json()["version"] for _ in range(6)} == {"next"}, "the new model")


class TestTheEnd:
    def test_sigterm_ends_with_status_0(self, model, tmp_path):
        with server(model.path, tmp_path / "log", workers=2) as running:
            port = running.port
            assert running.stop() == 0
            with pytest.raises(OSError, match="refused"):
                RawConnection(port)
        assert running.logged("stopped")[0]["clean"] is True

    def test_what_runs_is_finished(self, tmp_path):
        model = write_model(tmp_path / "m", n_items=60_000)
        asks = [{"user_id": f"u{8 + n % 150}", "budget": 60_000} for n in range(1000)]
        body = json.dumps({"requests": asks}).encode()
        with server(model.path, tmp_path / "log") as running, RawConnection(running.port) as raw:
            raw.send(
                b"POST /recommend/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            poll(lambda: running.metric("budgetrec_in_flight"), "the batch to run")
            assert running.stop() == 0
            status, _, answer = raw.answer()
            assert status == 200
            assert answer.count(b'"user_id"') == 1000

    def test_not_ready_while_draining(self, model, tmp_path):
        with server(model.path, tmp_path / "log", drain_seconds=3) as running:
            with httpx.Client(base_url=running.address) as client:
                assert client.get("/health/ready").status_code == 200
                running.signal(signal.SIGTERM)
                poll(lambda: client.get("/health/ready").status_code == 503, "not ready")
                assert "shutting down" in client.get("/health/ready").text
                assert client.get("/health/live").status_code == 200
                assert client.get("/recommend?user_id=u9").status_code == 200
            assert running.stop() == 0

    def test_sigint_too(self, model, tmp_path):
        with server(model.path, tmp_path / "log") as running:
            running.signal(signal.SIGINT)
            assert running.process.wait(20) == 0

    def test_workers_do_not_outlive_a_killed_supervisor(self, model, tmp_path):
        with server(model.path, tmp_path / "log", workers=2) as running:
            pids = running.workers()
            running.process.kill()
            running.process.wait()
            poll(lambda: not any(is_running(pid) for pid in pids), "the workers to leave")


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class TestTheBeginning:
    def test_the_port_is_bound_before_there_is_a_model(self, tmp_path):
        with server(tmp_path / "none", tmp_path / "log", wait=False) as running:
            poll(lambda: running.get("/health/live").status_code == 200, "live")
            response = running.get("/health/ready")
            assert response.status_code == 503
            poll(lambda: "no version is current" in running.get("/health/ready").text, "the reason")
            assert running.get("/recommend?user_id=u9").status_code == 503
            write_model(tmp_path / "none" / "first")
            (tmp_path / "none" / "current").symlink_to("first")
            running.wait_ready()
            assert running.get("/recommend?user_id=u9").json()["model"] == "first"

    def test_a_port_that_is_taken(self, model, tmp_path):
        with server(model.path, tmp_path / "log") as running:
            settings = Settings(models=model.path, port=running.port)
            with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{running.port}"):
                bind(settings)


def test_the_kernel_holds_as_many_connections_as_the_setting_says():
    with bind(Settings(port=0, backlog=77)) as listener:
        # Of a listening socket, the sixth 32-bit word of tcp_info is the length of its queue.
        info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64)
        assert struct.unpack_from("=8B6I", info)[8 + 5] == 77


def test_workers_share_one_copy_of_the_model(tmp_path):
    model = write_model(tmp_path / "m", n_items=200_000)
    size = sum(file.stat().st_size for file in model.path.iterdir())
    with server(model.path, tmp_path / "log", workers=2) as running:
        for _ in range(40):
            assert running.fresh("/recommend?user_id=u9&budget=2000").status_code == 200
        mapped = [model_pss(pid, model.path) for pid in running.workers()]
        # PSS divides a page among those who map it: all together they hold one copy.
        assert 0 < sum(mapped) <= 1.05 * size
        assert max(mapped) <= 0.75 * size


def model_pss(pid, path):
    """Bytes of the model's files that count for this process, from /proc/<pid>/smaps."""
    total, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            inside = str(path) in line
        elif inside and line.startswith("Pss:"):
            total += int(line.split()[1]) * 1024
    return total


@pytest.mark.parametrize("workers", [1, 3])
def test_sigterm_right_at_the_beginning(model, tmp_path, workers):
    with server(model.path, tmp_path / "log", wait=False, workers=workers) as running:
        assert running.stop() == 0
