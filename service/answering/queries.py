"""What a search is made with: the vector of a user, of items that were met, or of items to find similar ones for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import orjson

from service import errors

if TYPE_CHECKING:
    from service.answering.question import ItemsAsked, SimilarAsked
    from service.answering.search import Search
    from service.settings import Settings
    from service.telemetry.metrics import Metrics


class QueryFinder:
    """Finds the query, what is left out, and the beginning of the answer. Used by the event loop's thread."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._metrics = metrics
        self._popular = settings.unknown_user == "popular"

    def find(self, search: Search) -> None:
        """Find what a question is searched with; without anything, say why the popular items stand in."""
        question = search.question
        if question.items is not None:
            self._of_items(search, question.items)
        elif question.user_id is not None:
            self._of_user(search, question.user_id)
        elif question.similar is not None:
            _of_similar(search, question.similar)
        else:
            search.head = b'{"user_id":null,'
            search.query = question.vector

    def _of_items(self, search: Search, asked: ItemsAsked) -> None:
        """Find what a vector is to be made of, or moved by, and leave it out. Unknown items are counted.

        Where none is known it is as if no items had been given, and a 404 if there is nothing else.
        """
        question, model = search.question, search.model
        known = model.met(asked)
        some = len(known.positions) > 0
        if not some and question.user_id is None and question.vector is None:
            raise errors.unknown_items(known.unknown)
        search.head, search.query, how = b'{"user_id":null,', question.vector, "given"
        if question.user_id is not None:
            self._of_user(search, question.user_id, required=not some)
            how = "stored"
        has_vector = search.query is not None
        if some:
            search.met = known
            # What was found for the vector as it was need not be good for the moved one.
            search.hint, search.fallback = None, ""
            left_out = known.positions
            search.excluded = left_out if search.excluded is None else np.concatenate((left_out, search.excluded))
            how = "moved" if has_vector else model.makes_vectors_by
        label = b'"%b"' % how.encode() if some or has_vector else b"null"
        search.head += b'"vector":%b,"unknown_items":%d,' % (label, known.unknown)

    def _of_user(self, search: Search, user_id: str, *, required: bool = True) -> None:
        """Find the user's vector and what to leave out; a user without a vector gets the popular items.

        required  an operator may want a 404 for a user that is not known
        """
        question, model = search.question, search.model
        user = model.user(user_id)
        if user is not None:
            if question.exclude_seen is not False or user.seen is None:
                # What is remembered is the best of what the user has not seen.
                search.head, search.query, search.excluded, search.hint = user
            else:
                search.head, search.query = user.head, user.vector
            return
        position = model.bundle.user_position(user_id)
        fallback = None if question.arrangement is None else question.arrangement.fallback
        is_refused = position is None and not self._popular if fallback is None else fallback.kind == "error"
        if is_refused and required:
            self._metrics.count("budgetrec_unknown_users_total")
            raise errors.unknown_user(user_id, has_no_vector=position is not None)
        search.head = b'{"user_id":' + orjson.dumps(user_id) + b","
        search.fallback = "unknown_user" if position is None else "no_vector"
        if position is not None and model.has_seen and question.exclude_seen is not False:
            search.excluded = model.bundle.seen_items(position)


def _of_similar(search: Search, asked: SimilarAsked) -> None:
    """Find what similar items are looked for with: by cosine in an index of its own."""
    model = search.model
    positions, weights, unknown = model.met(asked.items)
    if len(positions) == 0:
        raise errors.unknown_items(unknown) if asked.item_id is None else errors.unknown_item(asked.item_id)
    by = model.compared_by(asked.by)
    if by == "cosine" and model.similar is not None:
        search.index = model.similar.index
        search.query, search.hint, search.excluded = model.similar.query(positions, weights)
    else:
        search.query, search.excluded = model.bundle.mean_of_items(positions, weights), positions
    search.head = b'{"item_id":%b,"by":"%b",' % (orjson.dumps(asked.item_id), by.encode())
    if asked.item_id is None:
        search.head += b'"unknown_items":%d,' % unknown
