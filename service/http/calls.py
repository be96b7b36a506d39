"""One table of all calls: the path, the name in metrics and logs, and who may call."""

from __future__ import annotations

from typing import Literal, NamedTuple

Access = Literal["open", "key", "admin"]


class Call(NamedTuple):
    """A call. `open` is answered to anybody, `key` to holders of an API key if there are keys, `admin` to operators."""

    name: str
    access: Access


_CALLS = {
    "/recommend": Call("recommend", "key"),
    "/recommend/batch": Call("batch", "key"),
    "/similar": Call("similar", "key"),
    "/budgets": Call("budgets", "key"),
    "/model": Call("model", "key"),
    "/health/live": Call("live", "open"),
    "/health/ready": Call("ready", "open"),
    "/metrics": Call("metrics", "open"),
    "/admin/reload": Call("reload", "admin"),
    "/admin/rollback": Call("rollback", "admin"),
    "/docs": Call("docs", "open"),
    "/openapi.json": Call("docs", "open"),
}
# That a path does not exist may be known to anybody.
_OTHER = Call("other", "open")
_POSTED = Call("recommend_post", "key")


def call_of(path: str, method: str = "GET") -> Call:
    """Return the call that a request is for."""
    call = _CALLS.get(path, _OTHER)
    return _POSTED if call.name == "recommend" and method == "POST" else call
