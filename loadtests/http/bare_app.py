"""The measure of all things: an ASGI function that does nothing but return given bytes, on the same uvicorn.

python -m loadtests.http.bare_app PORT FILE
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import uvicorn


def bare(body: bytes) -> Any:
    """Return the smallest ASGI application that answers with `body` and the headers that the service sends."""
    start = {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-type", b"application/json"),
            (b"x-request-id", b"0123456789ab-1234"),
            (b"content-length", str(len(body)).encode()),
        ],
    }
    end = {"type": "http.response.body", "body": body}

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start)
        await send(end)

    return app


if __name__ == "__main__":
    uvicorn.run(
        bare(Path(sys.argv[2]).read_bytes()),
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
    )
