"""What the client raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx


class BudgetrecError(Exception):
    """Any failure of a call."""


class Unreachable(BudgetrecError):  # noqa: N818 - says what is the case
    """No answer came, on any attempt."""


class DeadlineExceeded(BudgetrecError):  # noqa: N818
    """The time of the call was used up."""


class ApiError(BudgetrecError):
    """The service answered with an error. `code` is for programs and never changes."""

    def __init__(self, response: httpx.Response) -> None:
        try:
            said = response.json()["error"]
            self.code, self.message, self.hint = str(said["code"]), str(said["message"]), str(said["hint"])
        except (ValueError, KeyError, TypeError):
            # Something between here and the service answered.
            self.code, self.message, self.hint = "http", f"HTTP {response.status_code}", ""
        self.status = response.status_code
        self.request_id = response.headers.get("x-request-id")
        super().__init__(f"{self.status} {self.code}: {self.message} {self.hint}".rstrip())
