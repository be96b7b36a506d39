"""What both clients have in common: requests, and when to try again. Nothing here sends or waits.

All times are seconds on the clock of `time.monotonic`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import httpx

from budgetrec_client.errors import ApiError, DeadlineExceeded, Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of what is left of a deadline, the service gets this share; the rest is for the way there and back.
SERVICE_SHARE = 0.8
# Pauses before the second attempt, the third, and so on, where the service names none.
FIRST_PAUSE = 0.02
# Lists whose entries may have commas.
_REPEATED = frozenset(("boost",))
_TRY_AGAIN = frozenset((429, 502, 503, 504))


class Question(NamedTuple):
    """A request to be sent, once or several times."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    is_read: bool = True
    deadline_ms: float | None = None


def recommend(question: Mapping[str, Any]) -> Question:
    """Return GET /recommend where everything fits into a query string, else POST, which takes lists and vectors."""
    values, deadline_ms = _without_deadline(question)
    if any(isinstance(value, list | tuple | dict) for value in values.values()):
        return Question("POST", "/recommend", values, deadline_ms=deadline_ms)
    return Question("GET", "/recommend" + query(values), deadline_ms=deadline_ms)


def asked(path: str, question: Mapping[str, Any]) -> Question:
    """Return a GET with these parameters."""
    values, deadline_ms = _without_deadline(question)
    return Question("GET", path + query(values), deadline_ms=deadline_ms)


def query(values: Mapping[str, Any]) -> str:
    """Return a query string; lists are separated by commas, a comma in an entry is escaped. Filters are repeated."""
    parts = []
    for name, value in values.items():
        entries = value if isinstance(value, list | tuple) else [value]
        texts = [str(entry).lower() if isinstance(entry, bool) else str(entry) for entry in entries]
        quoted = [quote(text, safe="") for text in texts]
        parts += [f"{name}={text}" for text in (quoted if name in _REPEATED else [",".join(quoted)])]
    return "?" + "&".join(parts) if parts else ""


def _without_deadline(question: Mapping[str, Any]) -> tuple[dict[str, Any], float | None]:
    """Take the deadline out: what is left of it goes along as a header with each attempt."""
    values = {name: value for name, value in question.items() if value is not None}
    return values, values.pop("deadline_ms", None)


class Attempts:
    """The attempts of one call.

    A client sends with the `timeout` and the `headers` of each attempt, and asks `after` what follows from the outcome:
    the answer, an error, or a wait before the next attempt.
    """

    def __init__(self, question: Question, *, timeout: float, deadline_ms: float | None, retries: int) -> None:
        own = question.deadline_ms if question.deadline_ms is not None else deadline_ms
        self._has_deadline = own is not None
        self._end = time.monotonic() + (timeout if own is None else own / 1000)
        self._left = retries if question.is_read else 0
        self._pause = FIRST_PAUSE

    def read(self, response: httpx.Response) -> httpx.Response:
        """Return the response with its body, which may not come more slowly than the call has time.

        A timeout of httpx is about each part of a body, not about all of them.
        """
        parts = []
        for part in response.iter_bytes():
            if time.monotonic() > self._end:
                raise httpx.ReadTimeout("the body comes too slowly", request=response.request)
            parts.append(part)
        # What was unpacked is not to be unpacked again.
        headers = [pair for pair in response.headers.multi_items() if pair[0].lower() != "content-encoding"]
        return httpx.Response(response.status_code, headers=headers, content=b"".join(parts), request=response.request)

    def timeout(self) -> float:
        """Return how long the next attempt may take."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded("The time of the call was used up; allow more, or ask for less.")
        return left

    def headers(self) -> dict[str, str]:
        """Return the headers of the next attempt: how long the service may take."""
        if not self._has_deadline:
            return {}
        return {"X-Request-Deadline-Ms": f"{max(0.001, self.timeout() * 1000 * SERVICE_SHARE):.3f}"}

    def after(self, outcome: httpx.Response | httpx.HTTPError | TimeoutError) -> Any:
        """Return the JSON of a good answer, or a wait before the next attempt; raise what cannot be mended."""
        if isinstance(outcome, httpx.Response):
            if outcome.status_code == 200:
                return outcome.json()
            error: Exception = ApiError(outcome)
            again = outcome.status_code in _TRY_AGAIN
            named = outcome.headers.get("retry-after", "")
            pause = float(named) if named.isdigit() else self._pause
        elif isinstance(outcome, httpx.TimeoutException | TimeoutError):
            raise DeadlineExceeded("No answer came in time; allow more, or ask for less.") from outcome
        else:
            error = Unreachable(f"{type(outcome).__name__}: {outcome}")
            again, pause = isinstance(outcome, httpx.TransportError), self._pause
        if not again or self._left == 0 or time.monotonic() + pause >= self._end:
            raise error
        self._left -= 1
        self._pause *= 2
        return Wait(pause)


class Wait(NamedTuple):
    """Try again after so many seconds."""

    seconds: float
