"""What is decided before a question waits, and what a swap meanwhile does to it."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from greedy_core import Bundle
from service.answering import answering as rooms
from service.answering.answering import Answering
from service.answering.question import Question
from service.errors import ApiError
from service.models import filters
from service.models.model import Model
from service.settings import Settings
from service.shared_memory import SharedMemory
from service.telemetry.metrics import Metrics


@pytest.fixture
def versions(model):
    """Two versions of a model."""
    return [Model(Bundle.open(model.path)) for _ in range(2)]


@pytest.fixture
def answering(versions):
    settings = Settings(monitor_share=0)
    memory = SharedMemory.make(settings)
    made = Answering(settings, Metrics(memory.metrics))
    made.use(versions[0])
    yield made
    made.close()
    memory.close()


def full(answering):
    """Let more wait than anybody may wait for."""
    answering.admission.inline.enter(10**7, 10.0)


class TestTurnedAway:
    def test_nobody_is_in_a_calm_service(self, answering):
        assert answering.turned_away(Question(10, 0.0, "u9", 64), 0.0) is None

    def test_whoever_has_a_deadline_gets_popular_items_for_nothing(self, answering):
        full(answering)
        question = Question(10, 0.0, "u9", 64, deadline=0.05)
        grant = answering.turned_away(question, 0.0)
        assert grant == (64, 0, "overload")
        body = answering.answer_inline(question, None, grant)
        assert b'"budget":0,"spent":0' in body
        assert b'"degraded":{"from":64,"reason":"overload"},"fallback":"deadline"' in body

    def test_others_are_refused(self, answering):
        full(answering)
        with pytest.raises(ApiError) as refused:
            answering.turned_away(Question(10, 0.0, "u9", 64), 0.0)
        assert (refused.value.status, refused.value.code) == (503, "overload")

    @pytest.mark.parametrize(
        "question",
        [
            Question(10, 0.0, "u9", deadline=0.05),
            Question(10, 0.0, "u9", 64, target_recall=0.5),
            Question(10, 0.0, "u9", 64, filter="in_stock"),
            Question(10, 0.0, "u9", 10**9),
            Question(10, 0.0, "u9", 64, exclude=["i9"] * (rooms.MANY_IDS + 1)),
        ],
    )
    def test_what_takes_more_to_judge_is_judged_later(self, answering, question):
        full(answering)
        assert answering.turned_away(question, 0.0) is None


class TestSwapsMeanwhile:
    @pytest.fixture
    def swapping(self, answering, versions, monkeypatch):
        """The second version takes over while a filter is applied to the first."""
        monkeypatch.setattr(filters, "SHORT_TEXT", 5)
        applied = []

        def watched(version):
            apply = version.filters.apply

            def noted(text):
                applied.append((version, threading.current_thread()))
                answering.use(versions[1])
                return apply(text)

            return noted

        for version in versions:
            monkeypatch.setattr(version.filters, "apply", watched(version))
        return applied

    def test_no_filter_is_applied_on_the_event_loop(self, answering, versions, swapping):
        asyncio.run(answering.answer(Question(10, 0.0, "u9", 64, filter="price < 20")))
        assert [version for version, _ in swapping] == versions
        assert all(thread is not threading.current_thread() for _, thread in swapping)

    def test_a_batch_is_answered_by_one_version(self, answering, versions, swapping):
        asked = [Question(10, 0.0, "u9", 64, filter=f"price < {n}") for n in (20, 30)]
        prepared = asyncio.run(answering.prepare_batch(asked, range(2)))
        assert [search.model for search in prepared] == [versions[0]] * 2
        assert [version for version, _ in swapping] == [versions[0]] * 2
        assert answering.model is versions[1]


class TestLongAnswers:
    @pytest.fixture
    def shown_by(self, versions, monkeypatch):
        """The threads that fields were read in."""
        threads = []
        show = versions[0].shown_fields

        def noted(*arguments):
            threads.append(threading.current_thread())
            return show(*arguments)

        monkeypatch.setattr(versions[0], "shown_fields", noted)
        return threads

    @pytest.mark.parametrize("user_id", ["u9", "nobody"])
    def test_many_fields_are_read_in_a_thread(self, answering, shown_by, monkeypatch, user_id):
        question = Question(10, 0.0, user_id, 64, fields=["price", "title"])
        here = asyncio.run(answering.answer(question))
        monkeypatch.setattr(rooms, "MANY_FIELDS", 19)
        there = asyncio.run(answering.answer(question))
        assert shown_by[0] is threading.current_thread()
        assert shown_by[1] is not threading.current_thread()
        assert here.split(b'"search_us"')[0] == there.split(b'"search_us"')[0]

    def test_popular_items_of_a_batch_are_found_in_a_thread(self, answering, shown_by):
        asked = [Question(10, 0.0, user_id, 64, fields=["price"]) for user_id in ("u9", "nobody")]
        known, unknown = asyncio.run(answering.answer_batch(asked))
        assert b'"fallback":null' in known
        assert b'"fallback":"unknown_user"' in unknown
        assert unknown.count(b'"fields":{"price":') == 10
        assert len(shown_by) == 2
        assert all(thread is not threading.current_thread() for thread in shown_by)


def test_what_was_asked_lately_is_read_in_a_thread_while_answers_are_added(answering):
    question = Question(10, 0.0, "u9", 1)
    answering.answer_inline(question, None, None)
    asked = []
    done = threading.Event()

    def read():
        while not done.is_set():
            asked.append(len(answering.asked_lately))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as reader:
            reading = reader.submit(read)
            for _ in range(3000):
                answering.answer_inline(question, None, None)
            done.set()
            reading.result()
    finally:
        sys.setswitchinterval(before)
    assert max(asked) > 1
