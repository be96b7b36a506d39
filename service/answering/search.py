"""A prepared search: everything that it takes to run one, in whatever thread it runs."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core import InvalidQueryError, SearchResult
from service import errors
from service.answering.arranging import candidates, page, popular_arranged
from service.answering.filtering import likely_products

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from greedy_core import AppliedRules, Eligible
    from service.answering.arranging import Arranged, Arrangement

    # Makes a page of candidates by rules.
    MakePage = Callable[["Search", Arrangement, AppliedRules, SearchResult], tuple[SearchResult, Arranged]]
    from service.answering.budgets import Grant
    from service.answering.question import Question
    from service.models.model import ItemsKnown, Model


class Search:
    """What was found for a question before the search, and what was granted to it.

    query     None: there is nothing to search for, the popular items stand in; `fallback` says why
    eligible  the only items that may come back; None: all
    met       items that the query is still to be made of, or moved by
    let_through  what the filters of boosts let through
    standing_in  the only items that may stand in, where the question says so
    arranged  what rules did to the page, once there is one
    popular   the items that stand in, once they are found
    shown     the fields of each item of the answer, where the question asks for some
    shards    how many shards were asked and how many answered, where the index lies in shards elsewhere
    """

    __slots__ = (
        "arranged", "eligible", "excluded", "fallback", "grant", "head", "hint", "index", "let_through", "looked_up",
        "met", "model", "popular", "query", "question", "seconds", "shards", "shown", "standing_in", "started",
    )  # fmt: skip

    def __init__(self, question: Question, model: Model, grant: Grant, started: float) -> None:
        self.question = question
        self.model = model
        self.index = model.index
        self.grant = grant
        self.started = started
        self.head = b""
        self.query: npt.NDArray[np.float32] | None = None
        self.hint: npt.NDArray[Any] | None = None
        self.met: ItemsKnown | None = None
        self.excluded: npt.NDArray[np.int32] | None = None
        self.looked_up = False
        self.eligible: Eligible | None = None
        self.let_through: Mapping[str, Eligible] = {}
        self.standing_in: Eligible | None = None
        self.arranged: Arranged | None = None
        self.popular: npt.NDArray[np.int32] | None = None
        self.shown: list[bytes] | None = None
        self.shards: tuple[int, int] | None = None
        self.fallback = ""
        self.seconds = 0.0

    @property
    def products(self) -> int:
        """How many products it will probably spend: there are no more than items to be scored."""
        return 0 if self.is_popular else likely_products(self.grant.granted, self.eligible)

    @property
    def is_popular(self) -> bool:
        """Whether there is nothing to search for, and the popular items stand in."""
        return self.query is None and self.met is None

    # What follows touches nothing shared, so that it may run in any thread.

    def look_up(self) -> None:
        """Find the positions of the excluded ids, once."""
        if self.question.exclude and not self.looked_up:
            self.excluded = self.model.excluded(self.question.exclude, self.excluded)
            self.looked_up = True

    def make_vector(self) -> None:
        """Make the query of items that were met, once."""
        if self.met is not None:
            positions, weights, _ = self.met
            try:
                self.query = self.model.bundle.vector_of_items(positions, weights, self.query).vector
            except InvalidQueryError as error:
                raise errors.invalid("items", "cannot be made a vector of", f"items with weights: {error}") from None
            self.met = None

    def run(self, make_page: MakePage = page) -> SearchResult:
        """Search; `make_page` makes the page where there are rules."""
        question = self.question
        if question.exclude:
            self.look_up()
        if self.met is not None:
            self.make_vector()
        query = self.query
        if query is None:
            raise ValueError("there is nothing to search for")
        arrangement = question.arrangement
        began = perf_counter()
        try:
            if arrangement is not None and not arrangement.is_plain:
                result, self.arranged = make_page(self, arrangement, *candidates(self, arrangement, query))
            else:
                result = self.index.search(
                    query, question.top_k, self.grant.granted, self.excluded, None, self.hint, self.eligible
                )
        except InvalidQueryError as error:
            raise unsearchable(error) from None
        self.seconds = perf_counter() - began
        if question.fields:
            self.show(result.ids)
        return result

    def show(self, found: npt.NDArray[np.int32]) -> None:
        """Find the fields of the items of the answer."""
        self.shown = self.model.shown_fields(found.tolist(), self.question.fields)

    def find_popular(self) -> npt.NDArray[np.int32]:
        """Find the items that stand in, once."""
        if self.popular is not None:
            return self.popular
        self.look_up()
        if self.standing_in is not None:
            self.eligible = self.standing_in
        arrangement = self.question.arrangement
        if arrangement is not None and not arrangement.is_plain:
            self.arranged = popular_arranged(self, arrangement)
            self.popular = self.arranged.collected.ids
        else:
            self.popular = self.model.popular(self.question.top_k, self.excluded, self.eligible)
        if self.question.fields:
            self.show(self.popular)
        return self.popular


def run_together(searches: Sequence[Search]) -> dict[int, SearchResult]:
    """Search for all, with one call of the kernel for each `top_k` and model; results by the id of their search.

    For those without anything to search with the popular items are found, and there is no result.
    """
    results: dict[int, SearchResult] = {}
    groups: dict[tuple[int, int], list[Search]] = {}
    for search in searches:
        arrangement = search.question.arrangement
        if search.is_popular:
            search.find_popular()
            continue
        if arrangement is not None and not arrangement.is_plain:
            results[id(search)] = search.run()
            continue
        search.look_up()
        search.make_vector()
        groups.setdefault((id(search.model), search.question.top_k), []).append(search)
    for (_, top_k), group in groups.items():
        began = perf_counter()
        try:
            found = group[0].index.search_batch(
                np.array([search.query for search in group], dtype=np.float32),
                top_k,
                [search.grant.granted for search in group],
                [search.excluded for search in group],
                remembered=[search.hint for search in group],
                eligible=[search.eligible for search in group],
            )
        except InvalidQueryError as error:
            raise unsearchable(error) from None
        # The kernel does not time queries apart; each is charged its share of the products.
        seconds = (perf_counter() - began) / max(1, sum(search.products for search in group))
        for search, result in zip(group, found, strict=True):
            search.seconds = seconds * search.products
            results[id(search)] = result
            if search.question.fields:
                search.show(result.ids)
    return results


def unsearchable(error: InvalidQueryError) -> errors.ApiError:
    """Return the 422 for a vector that nothing can be searched with."""
    return errors.invalid("vector", "cannot be searched with", f"finite numbers: {error}")
