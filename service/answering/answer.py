"""The JSON of an answer: the items and the receipt that the caller reads."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greedy_core import SearchResult
    from service.answering.budgets import Grant
    from service.answering.question import Question
    from service.models.model import Model

_ANSWER = b'%b"items":[%b],"budget":%d,"spent":%d,"complete":%b,"degraded":%b,"fallback":%b%b%b%d}'


def write_answer(
    head: bytes,
    model: Model,
    result: SearchResult,
    grant: Grant,
    question: Question,
    search_us: int,
    eligible: int | None = None,
    shown: Sequence[bytes] | None = None,
    arrangement: bytes = b"",
    *,
    is_ruled: bool = False,
) -> bytes:
    """Write what a search found. `head` is the beginning, up to and including the comma before "items".

    Scores are written with the fewest digits that give the same float32 back.

    shown        the fields of each item, where the question asks for some
    eligible     how many items could have been found, where a filter said which
    arrangement  what is said of scenario and rules
    is_ruled     rules left items out: if there are too few, that is why
    """
    ids, scores, spent, complete, _, _ = result
    items = b""
    if len(ids):
        numbers = orjson.dumps(scores, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
        fragments = model.fragments(ids.tolist())
        if shown is not None:
            fragments = _with_fields(fragments, shown)
        items = b"},".join(map(add, fragments, numbers)) + b"}"
    return _ANSWER % (
        head,
        items,
        grant.granted,
        spent,
        b"true" if complete else b"false",
        b"null" if grant.reason is None else _degraded(grant),
        b"null",
        arrangement
        if eligible is None and len(ids) == question.top_k
        else _extra(eligible, len(ids), question.top_k, limited=not complete, is_ruled=is_ruled) + arrangement,
        model.dealt_tail if question.is_dealt else model.tail,
        search_us,
    )


def write_popular(
    head: bytes,
    model: Model,
    positions: Sequence[int],
    grant: Grant,
    question: Question,
    fallback: str,
    eligible: int | None = None,
    shown: Sequence[bytes] | None = None,
    arrangement: bytes = b"",
    *,
    is_ruled: bool = False,
) -> bytes:
    """Write an answer that no search made: items without scores, nothing spent."""
    fragments = model.fragments(list(positions))
    if shown is not None:
        fragments = _with_fields(fragments, shown)
    items = b",".join([fragment + b"null}" for fragment in fragments])
    degraded = b"null" if grant.reason is None else _degraded(grant)
    short = _extra(eligible, len(positions), question.top_k, limited=False, is_ruled=is_ruled) + arrangement
    tail = model.dealt_tail if question.is_dealt else model.tail
    return _ANSWER % (
        head, items, grant.granted, 0, b"false", degraded, b'"%b"' % fallback.encode(), short, tail, 0
    )  # fmt: skip


def _with_fields(fragments: Sequence[bytes], shown: Sequence[bytes]) -> list[bytes]:
    """Put the fields of each item before its score, with which its fragment ends."""
    score = b'"score":'
    return [
        b'%b"fields":%b,%b' % (each.removesuffix(score), fields, score)
        for each, fields in zip(fragments, shown, strict=True)
    ]


def _extra(eligible: int | None, found: int, top_k: int, *, limited: bool, is_ruled: bool) -> bytes:
    """Return what only some answers say: how many items were eligible, and why fewer than asked came back."""
    counted = b"" if eligible is None else b',"eligible":%d' % eligible
    return counted + _short(found, top_k, limited=limited, is_ruled=is_ruled)


def _degraded(grant: Grant) -> bytes:
    return b'{"from":%d,"reason":"%b"}' % (grant.asked, (grant.reason or "").encode())


def _short(found: int, top_k: int, *, limited: bool, is_ruled: bool) -> bytes:
    """Say why fewer than `top_k` items came back; nothing if they did not.

    limited   the budget ended the search: one product finds at most one item
    is_ruled  rules left items out
    """
    if found >= top_k:
        return b""
    if is_ruled:
        return b',"short":"rules"'
    return b',"short":"budget"' if limited else b',"short":"catalogue"'
