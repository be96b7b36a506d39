"""One connection after the other does what it likes, and the next request is answered as if nothing had happened."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.service.raw import RawConnection
from tests.service.running import poll, server

ASK = b"GET /recommend?user_id=%b&budget=16 HTTP/1.1\r\nHost: x\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def running(model, tmp_path_factory):
    log = tmp_path_factory.mktemp("connection") / "log"
    limits = {
        "receive_seconds": 1,
        "send_seconds": 1,
        "max_connections": 60,
        "header_limit": 16384,
        "body_limit": 65536,
    }
    with server(model.path, log, **limits) as service:
        yield service


def post(body, *, head=b""):
    return (
        b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n%b\r\n%b" % (len(body), head, body)
    )


def test_pipelined_requests_keep_their_ids(running):
    with RawConnection(running.port) as raw:
        sent = b""
        for number in range(30):
            kind = (
                ASK % b"u9",
                LIVE.removesuffix(b"\r\n"),
                post(b'{"user_id": "u9"}').partition(b"\r\n\r\n")[0] + b"\r\n",
            )
            body = b'{"user_id": "u9"}' if number % 3 == 2 else b""
            sent += kind[number % 3] + b"X-Request-ID: id-%d\r\n\r\n%b" % (number, body)
        raw.send(sent)
        for number in range(30):
            status, headers, _ = raw.answer()
            assert (status, headers["x-request-id"]) == (200, f"id-{number}")


@pytest.mark.parametrize("cut", [10, 60, 120, -30, -5, -1])
def test_a_post_in_two_pieces(running, cut):
    request = post(json.dumps({"user_id": "u9", "exclude": ["x" * 30_000]}).encode())
    with RawConnection(running.port) as raw:
        raw.send(request[:cut])
        poll(lambda: running.get("/health/live").status_code == 200, "a turn of the loop")
        raw.send(request[cut:])
        assert raw.answer()[0] == 200
        raw.send(LIVE)
        assert raw.answer()[0] == 200


def test_garbage_behind_a_request_does_not_eat_its_answer(running):
    for first in (ASK % b"u9" + b"\r\n", LIVE, post(b'{"user_id": "u9"}')):
        with RawConnection(running.port) as raw:
            raw.send(first + b"\x00garbage\r\n\r\n")
            assert raw.answer()[0] == 200
            status, headers, body = raw.answer()
            assert (status, headers["connection"]) == (400, "close")
            assert json.loads(body)["error"]["code"] == "bad_request"
            assert raw.at_end()


def test_an_offer_to_upgrade_is_passed_over(running):
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
    with RawConnection(running.port) as raw:
        raw.send(ASK % b"u9" + offer + LIVE + ASK % b"u10" + b"\r\n")
        assert b'"user_id":"u9"' in raw.answer()[2]
        assert raw.answer()[2] == b'{"status":"live"}'
        assert b'"user_id":"u10"' in raw.answer()[2]


@pytest.mark.parametrize("lane", [True, False])
def test_a_raw_hash_means_the_same_on_both_ways(model, tmp_path, lane):
    with server(model.path, tmp_path / "log", lane=lane) as service, RawConnection(service.port) as raw:
        raw.send(b"GET /recommend?user_id=u9&budget=16#x HTTP/1.1\r\nHost: x\r\n\r\n")
        status, _, body = raw.answer()
        assert status == 200
        assert json.loads(body)["user_id"] == "u9"


def test_a_chunked_body(running):
    with RawConnection(running.port) as raw:
        raw.send(
            b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for part in (b'{"user_id"', b': "u9"}'):
            raw.send(b"%x\r\n%b\r\n" % (len(part), part))
        raw.send(b"0\r\n\r\n")
        status, headers, _ = raw.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert raw.at_end()


def test_trailers_without_end_are_cut_off(running):
    with RawConnection(running.port) as raw:
        raw.send(b"POST /recommend HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
        sent = 0
        try:
            while sent < 64 << 20:
                raw.send(b"X-Trailer: %b\r\n" % (b"y" * 60_000))
                sent += 60_000
        except (BrokenPipeError, ConnectionResetError):
            pass
        # What the kernel holds, and what is dropped behind the end, are among them.
        assert sent < 16 << 20
    assert running.get("/health/live").status_code == 200


@pytest.mark.parametrize("begun", [b"GET /recommend?us", ASK % b"u9", post(b"x" * 100)[:-50], b"G"])
def test_a_request_that_does_not_come_is_told_so(running, begun):
    with RawConnection(running.port) as raw:
        raw.send(begun)
        status, _, body = raw.answer()
        assert status == 408
        assert json.loads(body)["error"]["code"] == "slow_request"
        assert raw.at_end()


def test_a_caller_that_never_reads_is_cut_off(running):
    before = running.metric('budgetrec_connections_closed_total{reason="slow_reader"}')
    with RawConnection(running.port) as raw:
        raw.stop_reading()
        asked = (b"GET /recommend?user_id=u9&budget=512&top_k=500 HTTP/1.1\r\nHost: x\r\n\r\n") * 2000
        raw.send_what_is_taken(asked)
        poll(
            lambda: running.metric('budgetrec_connections_closed_total{reason="slow_reader"}') == before + 1,
            "the caller to be cut off",
        )
    assert running.get("/recommend?user_id=u9").status_code == 200


def test_idle_connections_make_room_for_new_ones(running):
    idle = [RawConnection(running.port) for _ in range(80)]
    try:
        with RawConnection(running.port) as raw:
            raw.send(LIVE)
            assert raw.answer()[0] == 200
        assert running.metric("budgetrec_connections") <= 61
        assert running.metric('budgetrec_connections_closed_total{reason="connections"}') >= 15
    finally:
        for raw in idle:
            raw.close()


def test_half_closed_connections_get_their_answer(running):
    for request in (ASK % b"u9" + b"\r\n", LIVE, post(b'{"user_id": "u9"}')):
        with RawConnection(running.port) as raw:
            raw.send(request)
            raw.end_sending()
            assert raw.answer()[0] == 200
            assert raw.at_end()


def test_garbage_is_logged_once_a_second_at_most(running):
    for _ in range(50):
        with RawConnection(running.port) as raw:
            raw.send(b"\x16\x03\x01 this is TLS\r\n\r\n")
            assert raw.answer()[0] == 400
    assert 1 <= len(running.logged("not a request")) <= 25
    assert running.metric('budgetrec_failed_total{reason="bad_request"}') >= 50


def test_head_too_large_in_one_piece_and_in_many(running):
    for pieces in (1, 40):
        with RawConnection(running.port) as raw:
            raw.send(b"GET /recommend?user_id=u9 HTTP/1.1\r\nHost: x\r\n")
            for number in range(pieces):
                raw.send_what_is_taken(b"X-Filler-%d: %b\r\n" % (number, b"x" * (40_000 // pieces)))
            status, _, body = raw.answer()
            assert status == 431
            assert json.loads(body)["error"]["code"] == "headers_too_large"


def test_the_body_behind_an_offer_to_upgrade_is_a_body(running):
    inner = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    offer = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    with RawConnection(running.port) as raw:
        raw.send(post(inner, head=offer) + ASK % b"u10" + b"\r\n")
        status, _, body = raw.answer()
        assert status == 422
        assert b"not valid JSON" in body
        assert b'"user_id":"u10"' in raw.answer()[2]
        raw.send(post(b'{"user_id": "u9"}', head=offer))
        assert b'"user_id":"u9"' in raw.answer()[2]


def test_a_half_closed_pipeline_is_answered_to_its_end(running):
    with RawConnection(running.port) as raw:
        raw.send(ASK % b"u9" + b"\r\n" + LIVE + post(b'{"user_id": "u9"}') + ASK % b"u10" + b"\r\n")
        raw.end_sending()
        assert [raw.answer()[0] for _ in range(4)] == [200] * 4
        assert raw.at_end()


@pytest.mark.parametrize(
    "last",
    [
        ASK % b"u9" + b"Connection: close\r\n\r\n",
        LIVE.replace(b"1.1", b"1.0"),
        post(b'{"user_id": "u9"}', head=b"Expect: 100-continue\r\n"),
        b"no HTTP\r\n\r\n",
    ],
)
def test_what_comes_behind_the_last_request_takes_no_answer_away(running, last):
    # A socket that is closed before all was read resets the connection, and what the caller has no room for is lost.
    with RawConnection(running.port) as raw:
        raw.stop_reading()
        raw.send((ASK % b"u9" + b"\r\n") * 100 + last)
        for _ in range(20):
            time.sleep(0.005)
            raw.send_what_is_taken(LIVE)
        answers = [answer for answer in iter(raw.answer, None) if answer[0] != 100]
        assert [status for status, _, _ in answers[:-1]] == [200] * 100
        assert answers[-1][1]["connection"] == "close"


def test_a_body_that_is_no_http_leaves_nobody_waiting_for_its_rest(model, tmp_path):
    log = tmp_path / "log"
    with server(model.path, log) as service, RawConnection(service.port) as raw:
        raw.send(
            b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        assert service.get("/health/live").status_code == 200
        raw.send(b"no size\r\n")
        assert raw.answer()[0] == 400
    # Whoever waits when the service ends is cut off, and that is logged.
    assert "Traceback" not in log.read_text()


def test_whoever_goes_on_sending_behind_the_end_is_left(running):
    closed = 'budgetrec_connections_closed_total{reason="lingering"}'
    before = running.metric(closed) or 0
    with RawConnection(running.port) as raw:
        raw.send(ASK % b"u9" + b"Connection: close\r\n\r\n")
        assert raw.answer()[0] == 200
        assert raw.at_end()
        poll(lambda: (raw.send_what_is_taken(LIVE), running.metric(closed) == before + 1)[1], "the caller to be left")


def test_a_pipeline_without_end_does_not_fill_the_memory(running):
    (worker,) = running.workers()
    before = peak_memory(worker)
    with RawConnection(running.port) as raw:
        raw.stop_reading()
        asked = (ASK % b"u9" + b"\r\n") * 4000
        for _ in range(200):
            raw.send_what_is_taken(asked)
    poll(lambda: running.get("/health/live").status_code == 200, "the next caller")
    assert peak_memory(worker) - before < 64 << 20


def test_a_pipeline_of_short_questions_lets_others_in_between(running):
    (worker,) = running.workers()
    before = peak_memory(worker)
    number, last = 60_000, b"X-Request-ID: last\r\n"
    asked = (ASK.replace(b"16", b"1&top_k=1") % b"u9" + b"\r\n") * number
    with RawConnection(running.port, timeout=60) as raw, ThreadPoolExecutor(1) as pool:
        sending = pool.submit(raw.send, asked[:-2] + last + b"\r\n")
        received, probed = b"", 0
        while b"last" not in received:
            received = received[-10:] + raw.receive()
            if probed < 20:
                probed += 1
                assert running.get("/health/live").elapsed.total_seconds() < 1
        sending.result()
    assert peak_memory(worker) - before < 16 << 20


def test_whoever_was_answered_early_is_not_answered_again(running):
    with RawConnection(running.port) as raw:
        raw.send(b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert raw.answer()[0] == 404
        # The rest of the body is awaited for a second.
        assert raw.at_end()


def peak_memory(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_one_connection_too_many_is_told_so(model, tmp_path):
    with server(model.path, tmp_path / "log", max_connections=4) as service:
        service.client.close()
        begun = [RawConnection(service.port) for _ in range(4)]
        for raw in begun:
            raw.send(post(b"x" * 100, head=b"Expect: 100-continue\r\n")[:-100])
            assert raw.answer()[0] == 100
        with RawConnection(service.port) as late:
            status, headers, body = late.answer()
            assert (status, headers["connection"]) == (503, "close")
            assert json.loads(body)["error"]["code"] == "connections"
        for raw in begun:
            raw.close()


def test_an_upload_that_never_ends_does_not_spoil_the_end(model, tmp_path):
    with server(model.path, tmp_path / "log", grace_seconds=1) as service, RawConnection(service.port) as raw:
        raw.send(post(b"x" * 100)[:-50])
        poll(lambda: service.metric("budgetrec_connections") >= 2, "the upload to begin")
        assert service.stop() == 0
