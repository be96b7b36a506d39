"""HTTP by hand, for what clients do not do: pipelines, half requests, broken heads."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any, NamedTuple, Self

PATIENCE = 5.0


class BrokenAnswerError(Exception):
    """What came back is not an HTTP answer."""


class Answer(NamedTuple):
    """One answer; header names are in lower case, in the order in which they came."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the first header of this name."""
        return next((value for each, value in self.headers if each == name), None)

    @property
    def is_last(self) -> bool:
        """Whether the connection ends with this answer, and says so."""
        return "close" in (self.header("connection") or "").lower()

    def json(self) -> Any:
        """Return the body, read as JSON."""
        return json.loads(self.body)


class Wire:
    """A socket to the service, and the answers that arrive on it, in their order."""

    def __init__(self, port: int, *, timeout: float = PATIENCE, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def send(self, data: bytes) -> None:
        """Send all of it; a connection that the other side has closed is no error, its answers may wait."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def finish(self) -> None:
        """Say that nothing more will be sent."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def answer(self, *, bodiless: bool = False) -> Answer | None:
        """Read one answer, None at the end of the connection; TimeoutError if neither comes."""
        while b"\r\n\r\n" not in self._buffer:
            if not self._receive():
                if self._buffer:
                    raise BrokenAnswerError(f"the connection ended inside an answer: {self._buffer[:200]!r}")
                return None
        head, _, rest = self._buffer.partition(b"\r\n\r\n")
        status, headers = _read_head(head)
        length = 0 if bodiless or status in (204, 304) or status < 200 else _length(headers, head)
        self._buffer = rest
        while len(self._buffer) < length:
            if not self._receive():
                raise BrokenAnswerError(f"the connection ended inside a body of {length} bytes")
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return Answer(status, headers, body)

    def final(self, *, bodiless: bool = False) -> Answer | None:
        """Read the next answer that is not an interim one (100 Continue)."""
        while True:
            answer = self.answer(bodiless=bodiless)
            if answer is None or answer.status >= 200:
                return answer

    def _receive(self) -> bool:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self._buffer += data
        return bool(data)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def request(
    target: str, *, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | None = None
) -> bytes:
    """Write an ordinary request."""
    lines = {"Host": "127.0.0.1", **(headers or {})}
    if body is not None:
        lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **lines}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (body or b"")


def ask(
    port: int,
    target: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: object = None,
    timeout: float = PATIENCE,
) -> Answer:
    """Ask on a fresh connection; a body that is not bytes is sent as JSON. OSError if there is no answer."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    with Wire(port, timeout=timeout) as wire:
        wire.send(request(target, method=method, headers={"Connection": "close", **(headers or {})}, body=data))
        answer = wire.final(bodiless=method == "HEAD")
    if answer is None:
        raise ConnectionError(f"{method} {target[:80]}: the connection was closed without an answer")
    return answer


def _read_head(head: bytes) -> tuple[int, list[tuple[str, str]]]:
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise BrokenAnswerError(f"this is no status line: {first[:200]!r}")
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise BrokenAnswerError(f"this is no header: {line[:200]!r}")
        headers.append((name.decode("latin-1").lower(), value.strip().decode("latin-1")))
    return int(words[1]), headers


def _length(headers: list[tuple[str, str]], head: bytes) -> int:
    lengths = {value for name, value in headers if name == "content-length"}
    if len(lengths) != 1:
        raise BrokenAnswerError(f"the answer does not say how long it is: {head[:300]!r}")
    return int(lengths.pop())
