"""The JSON of an answer: the items and the receipt that the caller reads."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greedy_core import SearchResult
    from service.answering.budgets import Grant
    from service.models.model import Model

_ANSWER = b'%b"items":[%b],"budget":%d,"spent":%d,"complete":%b,"degraded":%b,"fallback":%b%b%b%d}'


def write_answer(head: bytes, model: Model, result: SearchResult, grant: Grant, top_k: int, search_us: int) -> bytes:
    """Write what a search found. `head` is the beginning, up to and including the comma before "items".

    Scores are written with the fewest digits that give the same float32 back.
    """
    ids, scores, spent, complete, _ = result
    items = b""
    if len(ids):
        numbers = orjson.dumps(scores, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
        items = b"},".join(map(add, model.fragments(ids.tolist()), numbers)) + b"}"
    return _ANSWER % (
        head,
        items,
        grant.granted,
        spent,
        b"true" if complete else b"false",
        b"null" if grant.reason is None else _degraded(grant),
        b"null",
        _short(len(ids), top_k, limited=not complete),
        model.tail,
        search_us,
    )


def write_popular(
    head: bytes, model: Model, positions: Sequence[int], grant: Grant, top_k: int, fallback: str
) -> bytes:
    """Write an answer that no search made: items without scores, nothing spent."""
    items = b",".join([fragment + b"null}" for fragment in model.fragments(list(positions))])
    degraded = b"null" if grant.reason is None else _degraded(grant)
    short = _short(len(positions), top_k, limited=False)
    return _ANSWER % (
        head, items, grant.granted, 0, b"false", degraded, b'"%b"' % fallback.encode(), short, model.tail, 0
    )  # fmt: skip


def _degraded(grant: Grant) -> bytes:
    return b'{"from":%d,"reason":"%b"}' % (grant.asked, (grant.reason or "").encode())


def _short(found: int, top_k: int, *, limited: bool) -> bytes:
    """Say why fewer than `top_k` items came back; nothing if they did not.

    limited  the budget ended the search: one product finds at most one item
    """
    if found >= top_k:
        return b""
    return b',"short":"budget"' if limited else b',"short":"catalogue"'
