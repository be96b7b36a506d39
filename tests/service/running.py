"""Two ways to run the service in a test: inside the test's process, and for real."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx

from service.http.app import create_app
from service.settings import Settings
from service.worker import Worker

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0

_PROGRAM = """
import sys
from service.process.supervisor import serve
from service.settings import Settings
sys.exit(serve(Settings()))
"""


def poll(condition, what, seconds=PATIENCE, pause=0.02):
    """Wait until `condition()` is true and return what it returned; fail with `what` after `seconds`."""
    waiting = threading.Event()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        waiting.wait(pause)
    raise AssertionError(f"waited {seconds} s in vain: {what}")


class InProcess:
    """The whole application on an event loop of its own, called through ASGI without a socket."""

    def __init__(self, models, *, wait=True, slot=0, client="127.0.0.1", **settings):
        self.settings = Settings(models=models, **({"monitor_share": 0, "log_sample": 0} | settings))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.worker, outer = self.do(self._start(slot))
        transport = httpx.ASGITransport(outer, client=(client, 1234))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        if wait:
            poll(lambda: self.worker.answering.model, "a model to be loaded")

    async def _start(self, slot):
        worker = Worker(self.settings, slot=slot)
        await worker.start()
        return worker, create_app(worker)

    def do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    def request(self, method, url, **arguments):
        return self.do(self._client.request(method, url, **arguments))

    def get(self, url, **arguments):
        return self.request("GET", url, **arguments)

    def post(self, url, **arguments):
        return self.request("POST", url, **arguments)

    def metric(self, name):
        return metric(self.get("/metrics").text, name)

    def close(self):
        self.do(self._client.aclose())
        self.do(self.worker.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextlib.contextmanager
def in_process(models, **settings):
    app = InProcess(models, **settings)
    try:
        yield app
    finally:
        app.close()


class Server:
    """Supervisor and workers as an operator runs them, on a free port."""

    def __init__(self, models, log, **settings):
        self.log = Path(log)
        self.n_workers = settings.get("workers", 1)
        variables = {f"BUDGETREC_{name.upper()}": str(value) for name, value in settings.items()}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BUDGETREC_")}
        environment |= {"BUDGETREC_MODELS": str(models), "BUDGETREC_PORT": "0", "BUDGETREC_LOG_FORMAT": "json"}
        environment |= {"BUDGETREC_LOG_SAMPLE": "0", "BUDGETREC_MONITOR_SHARE": "0", "PYTHONPATH": str(ROOT)}
        with self.log.open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM], stderr=stderr, env=environment | variables, cwd=ROOT
            )
        try:
            self.address = poll(self._address, "the port to be bound")["address"]
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        self.client = httpx.Client(base_url=self.address, timeout=PATIENCE)

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def logged(self, event):
        return [line for line in self.lines() if line["event"] == event]

    def _address(self):
        assert self.process.poll() is None, self.log.read_text()
        return next(iter(self.logged("serving")), None)

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    def get(self, url, **arguments):
        return self.client.get(url, **arguments)

    def post(self, url, **arguments):
        return self.client.post(url, **arguments)

    def fresh(self, url):
        """Ask over a new connection, so that any worker may answer."""
        return httpx.get(self.address + url, timeout=PATIENCE)

    def metric(self, name):
        return metric(self.get("/metrics").text, name)

    def is_ready(self):
        return self.get("/health/ready").status_code == 200

    def wait_ready(self):
        """Wait until every worker serves: the gauge is the smallest of all of them."""
        poll(lambda: self.metric("budgetrec_workers") == self.n_workers, "all workers to be there")
        poll(lambda: self.metric("budgetrec_ready") == 1, "all workers to be ready")
        return self

    def workers(self):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """SIGTERM, and the exit status."""
        self.client.close()
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@contextlib.contextmanager
def server(models, log, *, wait=True, **settings):
    running = Server(models, log, **settings)
    try:
        if wait:
            running.wait_ready()
        yield running
    finally:
        running.stop()


def metric(text, name):
    """Return the value of one series, None if it is not there; the order of labels does not matter."""
    wanted = _by_label(name)
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        if _by_label(series) == wanted:
            return float(value)
    return None


def _by_label(series):
    name, _, labels = series.rstrip("}").partition("{")
    return name, sorted(label.rstrip('"') for label in labels.split('",'))
