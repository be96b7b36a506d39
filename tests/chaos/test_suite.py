"""The suite itself: it reads answers as they are, counts what it finds, and ends when it should."""

import random
import socket
import threading
import time
from dataclasses import replace

import pytest

from loadtests.chaos import __main__ as command
from loadtests.chaos import messages
from loadtests.chaos.oracle import Oracle, timeless
from loadtests.chaos.parts import PARTS
from loadtests.chaos.trial import QUICK, Trial
from loadtests.chaos.wire import Answer, BrokenAnswerError, Wire, ask


@pytest.fixture
def trial(tmp_path):
    return Trial("test", QUICK, tmp_path / "trial")


class Speaker:
    """A server that says one fixed thing to everybody who asks, and closes."""

    def __init__(self, said):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._said = said
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(self._said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._thread.join()
        self._listener.close()


class TestWire:
    def test_answers_in_their_order(self):
        first = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Request-ID: a\r\n\r\nhi"
        second = b"HTTP/1.1 204 No Content\r\n\r\n"
        with Speaker(b"HTTP/1.1 100 Continue\r\n\r\n" + first + second) as speaker, Wire(speaker.port) as wire:
            wire.send(b"x")
            assert wire.final() == Answer(200, [("content-length", "2"), ("x-request-id", "a")], b"hi")
            assert wire.final().status == 204
            assert wire.final() is None

    @pytest.mark.parametrize(
        "said",
        [
            b"nonsense\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhi",
            b"HTTP/1.1 200 OK\r\nbroken line\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n",
        ],
    )
    def test_what_is_no_answer(self, said):
        with Speaker(said) as speaker, pytest.raises(BrokenAnswerError):
            ask(speaker.port, "/")

    def test_a_closed_connection(self):
        with Speaker(b"") as speaker, pytest.raises(ConnectionError):
            ask(speaker.port, "/")


class TestTrial:
    def test_faults_are_grouped(self, trial):
        for number in (1, 2, 3, 4, 4):
            trial.check(number < 2, "too large", number)
        assert trial.faults == {"too large": 4}
        assert trial.details["too large"] == ["2", "3", "4"]
        assert trial.done["checks"] == 5

    def test_what_a_part_raises_is_a_fault(self, trial):
        with trial.timed():
            raise ValueError("unexpected")
        assert trial.details["the part broke off"] == ["ValueError: unexpected"]

    def test_a_part_that_does_not_end(self, tmp_path):
        trial = Trial("test", replace(QUICK, part_seconds=0.05), tmp_path / "trial")
        with trial.timed():
            time.sleep(30)
        assert list(trial.faults) == ["the part did not end within 0.05 s"]

    def test_the_seed_decides(self, tmp_path):
        drawn = [Trial("a", QUICK, tmp_path, seed).rng.random() for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]


class TestOracle:
    BODY = (
        b'{"user_id":"7","items":[],"budget":16,"spent":%d,"complete":false,"degraded":null,"fallback":null,'
        b'"model":"%b","search_us":%d}'
    )

    def complaint(self, asked, body):
        oracle = Oracle()
        oracle._known["v1", "/recommend?user_id=7&budget=16"] = timeless(self.BODY % (16, b"v1", 5))
        return oracle.complaint(asked, Answer(200, [], body))

    def test_the_same_but_for_time(self):
        assert self.complaint("/recommend?user_id=7&budget=16", self.BODY % (16, b"v1", 12345)) is None

    @pytest.mark.parametrize(
        ("asked", "body", "says"),
        [
            ("/recommend?user_id=8&budget=16", BODY % (16, b"v1", 5), "answered for user 7"),
            ("/recommend?user_id=7&budget=16", BODY % (15, b"v1", 5), "instead of"),
            ("/recommend?user_id=7&budget=16", BODY % (17, b"v1", 5), "spent 17 of 16"),
            ("/recommend?user_id=7&budget=16", BODY % (16, b"v9", 5), "v9"),
            ("/recommend?user_id=7&budget=16", b"{}", "not a receipt"),
        ],
    )
    def test_what_is_wrong(self, asked, body, says):
        assert says in self.complaint(asked, body)


def test_messages_are_what_they_say():
    rng = random.Random(0)
    made = [messages.well_formed(rng, number) for number in range(500)]
    assert len({message.kind for message in made}) > 25
    for message in made:
        assert message.request_id.encode() in message.raw
        assert message.raw.lstrip(b"\r\n").split(b" ", 1)[0].isalpha()


class TestCommand:
    def test_help_names_every_part(self, capsys):
        with pytest.raises(SystemExit) as end:
            command.main(["--help"])
        assert end.value.code == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in PARTS)

    def test_an_unknown_part(self, capsys):
        with pytest.raises(SystemExit) as end:
            command.main(["--only", "nothing"])
        assert end.value.code == 2
        assert "nothing" in capsys.readouterr().err
