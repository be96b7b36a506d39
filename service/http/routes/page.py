"""GET /, the page to try the service with, and its files."""

from __future__ import annotations

from fastapi import APIRouter

from service.http import pages
from service.http.routes.pages import serve

router = APIRouter(include_in_schema=False)

serve(router, "/", "page/index.html")
for _name in pages.names():
    if _name.startswith("page/") and not _name.endswith(".html"):
        serve(router, f"/static/{_name}", _name)
