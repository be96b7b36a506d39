"""Which items may come back: the filter of a question, applied to the model or found where it was kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np

from greedy_core import InvalidAttributesError, InvalidFilterError, InvalidRulesError, check_caps
from service import errors
from service.telemetry.families import selectivity_class

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import numpy.typing as npt

    from greedy_core import Eligible
    from service.answering.question import Question
    from service.models.filters import Applied
    from service.models.model import Model
    from service.telemetry.metrics import Metrics


class Filtering:
    """Finds what is eligible. Used by the event loop's thread; long work is done in the threads of the searches."""

    def __init__(self, metrics: Metrics, threads: Executor) -> None:
        self._metrics = metrics
        self._threads = threads
        # What is being applied now, so that many who ask for the same wait for one.
        self._under_way: dict[tuple[str, str | None], asyncio.Future[Applied]] = {}

    def is_quick(self, question: Question, model: Model) -> bool:
        """Whether everything here will answer at once: the filters were applied before, or are soon done."""
        filters = model.filters
        return all(filters.find(text) is not None or filters.is_quick(text) for _, text in _named(question, model))

    def eligible(self, question: Question, model: Model) -> Eligible:
        """Return what the filters of a question let through; 422 for one that cannot be read or applied."""
        found = model.filters.find(question.filter)
        if found is None:
            try:
                applied = model.filters.apply(question.filter)
            except InvalidFilterError as error:
                raise errors.invalid_filter(error) from None
            model.filters.keep(question.filter, applied)
            question.filter_was_new = True
            found = applied.eligible
        return found

    def lets_through(self, text: str, model: Model, rule: str) -> Eligible:
        """Return what a filter that a rule names lets through; 422 as above."""
        found = model.filters.find(text)
        if found is None:
            try:
                applied = model.filters.apply(text)
            except InvalidFilterError as error:
                raise errors.invalid_filter(error, f"{rule}: ") from None
            model.filters.keep(text, applied)
            found = applied.eligible
        return found

    async def make_ready(self, question: Question, model: Model | None, *, place: str = "") -> None:
        """Have the filters of a question applied, in a thread if that takes time; `place` is that of the question.

        A model that is swapped in meanwhile finds them not applied yet: then `eligible` does it.
        """
        if model is not None:
            check_rules(question, model, place)
        for rule, text in () if model is None else _named(question, model):
            try:
                if model is not None and model.filters.find(text) is None:
                    if model.filters.is_quick(text):
                        applied = model.filters.apply(text)
                    else:
                        applied = await self._applied_in_a_thread(text, model)
                    model.filters.keep(text, applied)
                    question.filter_was_new |= rule == ""
            except InvalidFilterError as error:
                raise errors.invalid_filter(error, f"{place}{rule}: " if rule else place) from None

    def of(self, question: Question, model: Model) -> Eligible | None:
        """Return what may come back for a question that is about to be answered, and count it; None: everything."""
        if question.filter is None and not model.is_filtered:
            return None
        eligible = self.eligible(question, model)
        metrics = self._metrics
        metrics.count("budgetrec_filtered_total", selectivity_class(eligible.count / model.n_items))
        which = "misses" if question.filter_was_new else "hits"
        metrics.count(f"budgetrec_filter_cache_{which}_total")
        return eligible

    async def _applied_in_a_thread(self, text: str | None, model: Model) -> Applied:
        key = (model.fingerprint, text)
        waiting = self._under_way.get(key)
        if waiting is None:
            loop = asyncio.get_running_loop()
            waiting = loop.run_in_executor(self._threads, model.filters.apply, text)
            self._under_way[key] = waiting
            waiting.add_done_callback(lambda _: self._under_way.pop(key, None))
        # Whoever gives up waiting leaves the work to the others.
        return await asyncio.shield(waiting)


def _named(question: Question, model: Model) -> list[tuple[str, str | None]]:
    """Return the filters of a question, with the names of the rules that they belong to."""
    arrangement = question.arrangement
    found: list[tuple[str, str | None]] = []
    if question.filter is not None or model.is_filtered:
        found.append(("", question.filter))
    if arrangement is not None:
        found += [("boost", boost.filter) for boost in arrangement.rules.boost]
        if arrangement.fallback is not None and arrangement.fallback.filter is not None:
            found.append(("fallback", arrangement.fallback_filter(question.filter)))
    return found


def check_rules(question: Question, model: Model, place: str = "") -> None:
    """422 for a cap on an attribute that the model's items do not have; `place` is that of the question."""
    try:
        if question.arrangement is not None:
            check_caps(question.arrangement.rules, model.attributes)
    except InvalidRulesError as error:
        raise errors.invalid_rule(error, place) from None


def check_fields(question: Question, model: Model) -> None:
    """422 for a field that no item of the model can have."""
    try:
        model.fields(question.fields)
    except InvalidAttributesError as error:
        names = [*model.attributes.names, *(["title"] if model.bundle.has_titles else [])]
        raise errors.invalid(
            "fields",
            f"cannot be shown: {str(error).removesuffix('.')}",
            f"names of attributes separated by commas; this model has: {', '.join(dict.fromkeys(names)) or 'none'}",
        ) from None


def likely_products(granted: int, eligible: Eligible | None) -> int:
    """Return how many products a search will probably spend: there are no more than items to be scored."""
    return granted if eligible is None else min(granted, eligible.count)


def eligible_count(eligible: Eligible, excluded: npt.NDArray[np.int32] | None) -> int:
    """Return how many items are eligible and not excluded."""
    if excluded is None or not len(excluded):
        return eligible.count
    excluded = np.unique(excluded)
    bits = (eligible.words[excluded >> 6] >> (excluded & 63).astype(np.uint64)) & np.uint64(1)
    return eligible.count - int(np.count_nonzero(bits))
