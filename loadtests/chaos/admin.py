"""Who may swap a model: without a key nobody but the operator on the same machine, and no browser or proxy there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadtests.chaos import models
from loadtests.chaos.serving import Service, succeed
from loadtests.chaos.wire import Wire

if TYPE_CHECKING:
    from loadtests.chaos.trial import Trial

CALLS = ("/admin/reload", "/admin/rollback")
_KEY = "key-of-the-operator"

# Header lines that show a web page, a proxy or a name that points to this machine from outside. {port} is filled in.
STRANGERS = {
    "a foreign Host": "Host: evil.example",
    "a foreign Host with our port": "Host: evil.example:{port}",
    "a Host that begins like ours": "Host: 127.0.0.1.evil.example",
    "a Host with a user": "Host: 127.0.0.1@evil.example",
    "an empty Host": "Host:",
    "two Hosts": "Host: 127.0.0.1:{port}\r\nHost: evil.example",
    "a foreign Origin": "Host: 127.0.0.1:{port}\r\nOrigin: https://evil.example",
    "an Origin of null": "Host: 127.0.0.1:{port}\r\nOrigin: null",
    "our own Origin": "Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}",
    "X-Forwarded-For": "Host: 127.0.0.1:{port}\r\nX-Forwarded-For: 10.1.2.3",
    "X-Forwarded-For of loopback": "Host: 127.0.0.1:{port}\r\nX-Forwarded-For: 127.0.0.1",
    "X-Forwarded-Host": "Host: 127.0.0.1:{port}\r\nX-Forwarded-Host: shop.example",
    "X-Forwarded-Proto": "Host: 127.0.0.1:{port}\r\nX-Forwarded-Proto: https",
    "X-Real-IP": "Host: 127.0.0.1:{port}\r\nX-Real-IP: 10.1.2.3",
    "Forwarded": "Host: 127.0.0.1:{port}\r\nForwarded: for=10.1.2.3",
    "Via": "Host: 127.0.0.1:{port}\r\nVia: 1.1 proxy",
    "Sec-Fetch-Site": "Host: 127.0.0.1:{port}\r\nSec-Fetch-Site: cross-site\r\nOrigin: https://evil.example",
}
FRIENDS = (
    "Host: 127.0.0.1:{port}",
    "Host: 127.0.0.1",
    "Host: localhost:{port}",
    "Host: LOCALHOST",
    "Host: [::1]:{port}",
)


def run(trial: Trial) -> None:
    folder = models.small(trial, "models", "v1", "v2")
    succeed("promote", "v2", "--models", folder)
    trial.step("strangers without a key")
    with Service(trial, folder) as service:
        for call in CALLS:
            for kind, lines in STRANGERS.items():
                status = post(service, call, lines)
                refused = {400, 403} if "Host" in kind and "X-" not in kind else {403}
                trial.did("strangers")
                trial.check(status in refused, f"an admin call passes with {kind}", f"POST {call}: {status}")
        trial.check(service.versions(4) == {"v2"}, "a stranger has swapped the model", service.versions(4))
        for lines in FRIENDS:
            status = post(service, "/admin/reload", lines)
            trial.did("friends")
            trial.check(status == 200, "the operator on this machine is refused", f"{lines}: {status}")
        told = service.ask("/health/ready").body + service.ask("/health/live").body
        trial.check(str(trial.directory).encode() not in told, "/health tells where files lie", told)
    trial.step("with an admin key")
    with Service(trial, folder, admin_key=_KEY) as service:
        for call in CALLS:
            statuses = [
                post(service, call, "Host: 127.0.0.1" + line)
                for line in ("", "\r\nX-API-Key: wrong-wrong", "\r\nX-API-Key: ", "\r\nAuthorization: Basic x")
            ]
            trial.did("strangers", len(statuses))
            trial.check(set(statuses) <= {401, 403}, "an admin call passes without the key", f"{call}: {statuses}")
        status = post(service, "/admin/reload", f"Host: shop.example\r\nX-API-Key: {_KEY}")
        trial.did("friends")
        trial.check(status == 200, "the admin key does not open", status)
    trial.step("with API keys and no admin key")
    with Service(trial, folder, api_keys=f"shop:{_KEY}") as service:
        status = post(service, "/admin/reload", f"Host: 127.0.0.1\r\nX-API-Key: {_KEY}")
        trial.did("strangers")
        trial.check(status == 403, "a caller's key opens the admin calls", status)


def post(service: Service, call: str, lines: str) -> int | None:
    """POST without a body, with exactly these headers; return the status, None if the connection just ends."""
    with Wire(service.port, timeout=15) as wire:
        wire.send(f"POST {call} HTTP/1.1\r\n{lines.format(port=service.port)}\r\nContent-Length: 0\r\n\r\n".encode())
        answer = wire.final()
    return None if answer is None else answer.status
