"""GET /docs and /redoc, the documentation for people, and what it needs: its files and the OpenAPI document."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from service.http import pages

router = APIRouter(include_in_schema=False)

PAGES = {"/docs": "docs.html", "/redoc": "redoc.html"}


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """Answer with the document that describes every call."""
    return JSONResponse(await asyncio.get_running_loop().run_in_executor(None, request.app.openapi))


def serve(router: APIRouter, path: str, name: str) -> None:
    """Answer a path with a file."""

    @router.get(path, name=name)
    async def page(request: Request) -> Response:
        return pages.answer(name, request.headers)


for _path, _name in PAGES.items():
    serve(router, _path, _name)
for _name in pages.names():
    if not _name.endswith(".html") and not _name.startswith("page/"):
        serve(router, f"/static/{_name}", _name)
