"""The files of the pages for people: read and packed once, told apart by their content.

A browser that has a file asks with its ETag and gets a 304. Nothing on a page may come from another host, which is
what the Content-Security-Policy says to the browser.
"""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastapi import Response

if TYPE_CHECKING:
    from starlette.datastructures import Headers

_FOLDER = Path(__file__).with_name("static")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The libraries of /docs and /redoc write styles into elements; their pictures are data; ReDoc's search runs in a worker
# made of text.
_LIBRARIES_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Our own page needs nothing but its own files and the calls of this service.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_OF_LIBRARIES = ("docs.html", "redoc.html")
# A page names its files; a new version of the service may have others under the same names, so a browser asks again.
_PAGE_AGE = "no-cache"
_FILE_AGE = "public, max-age=3600"


class PageFile(NamedTuple):
    """A file as it is sent: packed by gzip, as a library is kept already."""

    packed: bytes
    content_type: str
    tag: str


def names() -> list[str]:
    """Return the names of all files that are served, as they stand in an address."""
    files = (path.relative_to(_FOLDER).as_posix().removesuffix(".gz") for path in _FOLDER.rglob("*") if path.is_file())
    return sorted(name for name in files if Path(name).suffix in _TYPES)


@cache
def page_file(name: str) -> PageFile:
    """Return one of the files of `names`."""
    path = _FOLDER / f"{name}.gz"
    packed = path.read_bytes() if path.is_file() else gzip.compress((_FOLDER / name).read_bytes(), mtime=0)
    return PageFile(packed, _TYPES[Path(name).suffix], f'"{sha256(packed).hexdigest()[:20]}"')


def answer(name: str, headers: Headers) -> Response:
    """Answer with a file, packed if the caller takes that, or say that the caller's own copy is good."""
    file = page_file(name)
    common = {
        "etag": file.tag,
        "vary": "Accept-Encoding",
        "cache-control": _PAGE_AGE if name.endswith(".html") else _FILE_AGE,
        "x-content-type-options": "nosniff",
    }
    if name.endswith(".html"):
        policy = _LIBRARIES_POLICY if name in _OF_LIBRARIES else _POLICY
        common |= {"content-security-policy": policy, "referrer-policy": "no-referrer"}
    if file.tag in headers.get("if-none-match", ""):
        return Response(status_code=304, headers=common)
    body = file.packed
    if _takes_gzip(headers.get("accept-encoding", "")):
        common["content-encoding"] = "gzip"
    else:
        body = gzip.decompress(body)
    return Response(body, headers=common | {"content-type": file.content_type})


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding names gzip and does not forbid it."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in {"gzip", "*"}:
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
