"""One table of all calls: the path, the name in metrics and logs, who may call, and how."""

from __future__ import annotations

from typing import Literal, NamedTuple

Access = Literal["open", "key", "admin"]


class Call(NamedTuple):
    """A call. `open` is answered to anybody, `key` to holders of an API key if there are keys, `admin` to operators."""

    name: str
    access: Access
    methods: tuple[str, ...] = ("GET",)


_CALLS = {
    "/recommend": Call("recommend", "key", ("GET", "POST")),
    "/recommend/batch": Call("batch", "key", ("POST",)),
    "/similar": Call("similar", "key"),
    "/budgets": Call("budgets", "key"),
    "/model": Call("model", "key"),
    "/models": Call("models", "key"),
    "/scenarios": Call("scenarios", "key"),
    "/versions": Call("versions", "key"),
    "/items": Call("items", "key"),
    "/users": Call("users", "key"),
    "/attributes": Call("attributes", "key"),
    "/health/live": Call("live", "open"),
    "/health/ready": Call("ready", "open"),
    "/metrics": Call("metrics", "open"),
    "/admin/reload": Call("reload", "admin", ("POST",)),
    "/admin/rollback": Call("rollback", "admin", ("POST",)),
    "/": Call("docs", "open"),
    "/docs": Call("docs", "open"),
    "/redoc": Call("docs", "open"),
    "/openapi.json": Call("docs", "open"),
}
# That a path does not exist may be known to anybody.
_OTHER = Call("other", "open")
_FILE = Call("docs", "open")
_POSTED = Call("recommend_post", "key", ("GET", "POST"))


def call_of(path: str, method: str = "GET") -> Call:
    """Return the call that a request is for."""
    call = _CALLS.get(path) or (_FILE if path.startswith("/static/") else _OTHER)
    return _POSTED if call.name == "recommend" and method == "POST" else call
