"""The arms of a worker: its models by name, and which of them answers a question.

model=new in the question ──────────────────────────► the model of that name, or a 404
a user, and an experiment in the settings ──────────► the arm that the hash of the user's id says
anything else, and always where there is one model ─► the first model of the settings
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service import errors
from service.answering.answering import give_back, take_for_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.answering.answering import Answering
    from service.answering.question import Question
    from service.answering.search import Search
    from service.experiment import Experiment
    from service.http.key_limits import KeyLimit

# Users whose arm is kept; past this the store starts anew.
KNOWN_USERS = 65_536


class Arms:
    """All models of one worker. Used by the event loop's thread only."""

    def __init__(self, by_name: Mapping[str, Answering], experiment: Experiment | None) -> None:
        """Put the models together, the default first."""
        self.by_name = by_name
        self.default = next(iter(self.by_name.values()))
        self.is_one = len(self.by_name) == 1
        self.experiment = experiment
        self._dealt: dict[str, Answering] = {}

    def named(self, name: str | None, place: str = "") -> Answering:
        """Return the model of a name, None the default; 404 for any other name, with its place in the request."""
        if name is None:
            return self.default
        found = self.by_name.get(name)
        if found is None:
            raise errors.unknown_model(name, list(self.by_name), place)
        return found

    def of(self, question: Question, place: str = "") -> Answering:
        """Return the model that is to answer a question."""
        if question.model is not None:
            return self.named(question.model, place)
        if self.experiment is None or question.user_id is None:
            return self.default
        question.is_dealt = True
        return self._of_user(question.user_id, self.experiment)

    def of_subject(self, name: str | None, user_id: str | None, place: str = "") -> Answering:
        """Return the model that is to answer a question which is not read yet, but whose user is known."""
        if name is None and user_id is not None and self.experiment is not None:
            return self._of_user(user_id, self.experiment)
        return self.named(name, place)

    def _of_user(self, user_id: str, experiment: Experiment) -> Answering:
        answering = self._dealt.get(user_id)
        if answering is None:
            answering = self.by_name[experiment.arm_of(user_id)]
            if len(self._dealt) >= KNOWN_USERS:
                self._dealt.clear()
            self._dealt[user_id] = answering
        return answering

    async def answer(self, question: Question, limit: KeyLimit | None = None) -> bytes:
        """Answer one question."""
        return await self.of(question).answer(question, limit)

    async def answer_batch(self, questions: Sequence[Question], limit: KeyLimit | None = None) -> list[bytes]:
        """Answer many questions, each by its model, in one search for each model. A key pays for all at once."""
        if self.is_one and all(question.model is None for question in questions):
            return await self.default.answer_batch(questions, limit)
        places: dict[Answering, list[int]] = {}
        for place, question in enumerate(questions):
            places.setdefault(self.of(question, f"requests[{place}]."), []).append(place)
        prepared: dict[Answering, list[Search | bytes]] = {}
        for answering, mine in places.items():
            prepared[answering] = await answering.prepare_batch([questions[place] for place in mine], mine)
        take_for_all([search for searches in prepared.values() for search in searches], limit)
        answers: dict[int, bytes] = {}
        for answering, mine in places.items():
            try:
                written = await answering.answer_prepared(prepared.pop(answering), limit)
            except BaseException:
                # What failed has given its own part back; the models that were not asked yet spend nothing.
                for searches in prepared.values():
                    give_back(searches, limit)
                raise
            answers |= dict(zip(mine, written, strict=True))
        return [answers[place] for place in range(len(questions))]
