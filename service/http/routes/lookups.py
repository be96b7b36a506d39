"""GET /items, /users, /attributes and /versions: what people look up before they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request, Response

from greedy_core import InvalidAttributesError, StorageError
from service import errors
from service.http.lookup_schemas import AttributeList, FoundItems, SomeUsers, Versions
from service.http.parameters import FIRST_LOOKED_UP, MOST_LOOKED_UP
from service.http.routes import documented, worker_of
from service.http.routes.model import model_named

if TYPE_CHECKING:
    from service.http.parameters import QueryReader
    from service.models.model import Model
    from service.worker import Worker

router = APIRouter(tags=["look up"])

ERRORS = documented(401, 403, 404, 422, 500, 503)


def _asked(request: Request, reader: QueryReader) -> tuple[Worker, Model, dict[str, Any]]:
    worker = worker_of(request)
    values = reader.read(request.scope["query_string"])
    return worker, model_named(worker, values.get("model"))[1], values


def _json(answer: dict[str, Any]) -> Response:
    return Response(orjson.dumps(answer), media_type="application/json")


@router.get("/items", summary="Items by words of their titles", response_model=FoundItems, responses=ERRORS)
async def items(request: Request) -> Response:
    """Return items by words of their titles, the popular ones first; without `title`, the popular ones.

    Every word has to be in the title, in small or capital letters. At most 64 MB of titles are looked at. What the
    service's default filter hides is not found.
    """
    worker, model, values = _asked(request, worker_of(request).questions.items_parameters)
    limit = values.get("limit", FIRST_LOOKED_UP)
    found = await worker.lookups.run(model.find_items, values.get("title", ""), limit)
    named = [{"item_id": model.bundle.item_id(at), "title": model.bundle.title(at)} for at in found.positions]
    return _json({"model": model.version, "items": named, "complete": found.complete})


@router.get("/users", summary="A few users to try", response_model=SomeUsers, responses=ERRORS)
async def users(request: Request) -> Response:
    """Return the ids of a few users from all over the table, to try the service with.

    These are always the first of the same hundred: the call is no way to list everybody.
    """
    _, model, values = _asked(request, worker_of(request).questions.users_parameters)
    bundle, count = model.bundle, min(MOST_LOOKED_UP, model.bundle.n_users)
    spread = (at * bundle.n_users // count for at in range(count))
    known = [at for at in spread if bundle.user_vector(at) is not None]
    ids = bundle.user_ids(known[: values.get("limit", FIRST_LOOKED_UP)])
    return _json({"model": model.version, "n_users": bundle.n_users, "users": ids})


@router.get("/attributes", summary="What items can be filtered by", response_model=AttributeList, responses=ERRORS)
async def attributes(request: Request) -> Response:
    """Return what items can be filtered by, with some values of each attribute; `name` asks for one."""
    _, model, values = _asked(request, worker_of(request).questions.attributes_parameters)
    known = model.attributes
    name, starts, limit = values.get("name"), values.get("starts", ""), values.get("limit", FIRST_LOOKED_UP)
    if name is not None:
        try:
            known[name]
        except InvalidAttributesError as error:
            raise errors.unknown_attribute(str(error)) from None
    described = [
        each | {"some": known[each["name"]].values(starts, limit)}
        for each in known.describe()
        if name in (None, each["name"])
    ]
    return _json({"model": model.version, "attributes": described})


@router.get("/versions", summary="Versions of a model", response_model=Versions, responses=ERRORS)
async def versions(request: Request) -> Response:
    """Return the versions of a model as they lie in its folder, the newest first, and what each is worth."""
    worker = worker_of(request)
    name = worker.questions.model_parameters.read(request.scope["query_string"]).get("model")
    answering = worker.arms.named(name)
    listed = worker.version_lists[name or next(iter(worker.version_lists))]
    try:
        described, count = await worker.lookups.run(listed.describe)
    except StorageError:
        # Why is the operator's to know, with the path: the log of the keeper has both.
        raise errors.not_ready("its folder of models cannot be read") from None
    served = None if answering.model is None else answering.model.version
    return _json({"served": served, "n_versions": count, "versions": described})
