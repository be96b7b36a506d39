"""HTTP by hand, for what clients do not do: pipelines, half requests, other versions of the protocol."""

import socket


class RawConnection:
    """A socket to the service."""

    def __init__(self, port, timeout=10.0):
        self._timeout = timeout
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._file = self._socket.makefile("rb")

    def send(self, data):
        self._socket.sendall(data)

    def send_what_is_taken(self, data):
        """Send as much as the other side takes without being read from; it may have closed already."""
        self._socket.setblocking(False)
        try:
            self._socket.send(data)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
        finally:
            self._socket.settimeout(self._timeout)

    def stop_reading(self):
        """Offer the smallest window there is, so that answers pile up on the other side."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)

    def end_sending(self):
        """Close our half of the connection."""
        self._socket.shutdown(socket.SHUT_WR)

    def answer(self):
        """Read one answer: status, headers, body; None at the end of the connection."""
        line = self._file.readline()
        if not line:
            return None
        status = int(line.split()[1])
        headers = {}
        while line := self._file.readline().strip():
            name, _, value = line.partition(b":")
            headers[name.decode().lower()] = value.strip().decode()
        body = self._file.read(int(headers.get("content-length", 0)))
        return status, headers, body

    def receive(self):
        """Read what is there of any number of answers."""
        return self._socket.recv(1 << 16)

    def at_end(self):
        """Whether the other side closed the connection."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self._file.close()
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
