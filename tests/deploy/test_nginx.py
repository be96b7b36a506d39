"""The load balancer's configuration, run by a real nginx before replicas that misbehave on purpose."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from loadtests.http.fleet import start_nginx
from loadtests.http.processes import free_port
from tests.deploy.stub_replica import StubReplica

pytestmark = pytest.mark.needs("nginx")


@pytest.fixture
def replicas():
    with StubReplica() as first, StubReplica() as second:
        yield [first, second]


@contextlib.contextmanager
def balancer(directory, ports):
    process, port = start_nginx(directory, ports)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        process.stop()


@pytest.fixture
def client(tmp_path, replicas):
    with balancer(tmp_path, [each.port for each in replicas]) as client:
        yield client


def arrivals(replicas):
    return sum(len(each.requests) for each in replicas)


def test_work_is_shared_and_connections_are_kept(client, replicas):
    for _ in range(40):
        assert client.get("/recommend", params={"user_id": "1"}).status_code == 200
    assert all(len(each.requests) >= 10 for each in replicas)
    assert all("connection" not in request.headers for each in replicas for request in each.requests)


def test_request_id_and_deadline_go_through(client, replicas):
    answer = client.get("/recommend", headers={"X-Request-ID": "abc-1", "X-Request-Deadline-Ms": "40"})
    (request,) = [request for each in replicas for request in each.requests]
    assert request.headers["x-request-id"] == "abc-1"
    assert request.headers["x-request-deadline-ms"] == "40"
    assert answer.headers.get_list("x-request-id") == ["abc-1"]


@pytest.mark.parametrize("sent", [None, "two words", "x" * 500, 'quote"'])
def test_request_id_is_made_where_none_or_a_strange_one_came(client, replicas, sent):
    answer = client.get("/recommend", headers={} if sent is None else {"X-Request-ID": sent})
    (request,) = [request for each in replicas for request in each.requests]
    assert len(request.headers["x-request-id"]) == 32
    assert answer.headers["x-request-id"] == request.headers["x-request-id"]


def test_a_trace_goes_through(client, replicas):
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "shop=1"}
    assert client.get("/recommend", headers=trace).status_code == 200
    (seen,) = [request for replica in replicas for request in replica.requests]
    assert {name: seen.headers[name] for name in trace} == trace


def test_a_read_survives_a_replica_that_resets(client, replicas):
    replicas[0].behaviour = "reset"
    for _ in range(20):
        assert client.get("/recommend").json() == {"from": replicas[1].port}
    # Passive health: after two failures the replica is left alone for a while.
    assert 1 <= len(replicas[0].requests) <= 4


def test_a_read_survives_a_replica_that_is_gone(tmp_path, replicas):
    with balancer(tmp_path, [replicas[0].port, free_port()]) as client:
        assert {client.get("/recommend").status_code for _ in range(20)} == {200}


def test_a_write_is_never_sent_twice(client, replicas):
    for each in replicas:
        each.behaviour = "reset"
    answer = client.post("/recommend", json={"user_id": "1"})
    assert arrivals(replicas) == 1
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "unreachable"
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("deadline", ["10", "49.5", "249", "250", None])
def test_a_read_that_meets_an_unready_replica_gets_one_more_attempt(client, replicas, deadline):
    for each in replicas:
        each.behaviour = "not_ready"
    headers = {} if deadline is None else {"X-Request-Deadline-Ms": deadline}
    answer = client.get("/recommend", headers=headers)
    assert answer.status_code == 503
    assert answer.headers["x-error-code"] == "not_ready"
    # A deadline may pass on a busy machine before the second attempt; without one it always comes.
    assert arrivals(replicas) in ({2} if deadline is None else {1, 2})


def test_no_retry_begins_past_the_deadline(client, replicas):
    """Every replica hangs, so time passes; what waited for the read timeout is past any deadline."""
    for each in replicas:
        each.behaviour = "hang"
    calls = [{"headers": {"X-Request-Deadline-Ms": "20"}}, {"params": {"deadline_ms": "20"}}, {}]
    with ThreadPoolExecutor(len(calls)) as pool:
        answers = list(pool.map(lambda call: client.get("/recommend", timeout=20, **call), calls))
    assert arrivals(replicas) == len(calls)
    assert {answer.status_code for answer in answers} == {503}
    assert {answer.json()["error"]["code"] for answer in answers} == {"unreachable"}


def test_a_replica_that_is_not_ready_is_passed_over(client, replicas):
    replicas[0].behaviour = "not_ready"
    seen = [client.get("/recommend").status_code for _ in range(20)]
    assert seen.count(200) >= 10
    # It answers, so it is not taken out: the moment it is ready it serves.
    replicas[0].behaviour = "serve"
    assert replicas[0].port in {client.get("/recommend").json()["from"] for _ in range(10)}


def test_shedding_is_not_passed_on_to_the_next_replica(client, replicas):
    for each in replicas:
        each.behaviour = "shed"
    answer = client.get("/recommend", headers={"X-Request-ID": "shed-1"})
    assert arrivals(replicas) == 1
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "7"
    assert answer.headers.get_list("x-request-id") == ["shed-1"]
    assert answer.json()["error"]["code"] == "overload"


def test_shedding_does_not_take_replicas_out(client, replicas):
    for each in replicas:
        each.behaviour = "shed"
    for _ in range(20):
        client.get("/recommend")
    for each in replicas:
        each.behaviour = "serve"
    assert client.get("/recommend").status_code == 200


def test_the_service_s_own_errors_pass_unchanged(client, replicas):
    for each in replicas:
        each.behaviour = "refuse"
    answer = client.get("/recommend")
    assert answer.status_code == 422
    assert set(answer.json()) == {"from"}
    assert arrivals(replicas) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/admin/reload",
        "/admin/rollback",
        "/admin",
        "/metrics",
        "//admin/reload",
        "/x/../admin/reload",
        "/%61dmin/reload",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_administration_and_metrics_stay_inside(client, replicas, path, method):
    answer = client.request(method, f"{client.base_url}".rstrip("/") + path)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"
    assert arrivals(replicas) == 0


def test_a_body_that_is_too_large_is_refused_in_the_service_s_shape(client, replicas):
    answer = client.post("/recommend/batch", content=b"x" * (9 << 20))
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "body_too_large"
    assert arrivals(replicas) == 0


def test_no_replica_at_all_is_said_clearly(tmp_path):
    with balancer(tmp_path, [free_port(), free_port()]) as client:
        answer = client.get("/recommend")
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "unreachable"
        assert answer.headers["content-type"] == "application/json"
        assert client.get("/nginx/health").status_code == 200


def test_the_log_has_no_query_string(tmp_path, replicas):
    for each in replicas:
        each.behaviour = "shed"
    with balancer(tmp_path, [each.port for each in replicas]) as client:
        client.get("/recommend", params={"user_id": "somebody"}, headers={"X-Request-ID": "find-me"})
    log = (tmp_path / "nginx.log").read_text()
    assert "find-me" in log
    assert "somebody" not in log
