"""The calls of the service, once synchronous and once asynchronous; all that can be shared is in attempts.py."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import httpx

from budgetrec_client.attempts import Attempts, Question, Wait, asked, recommend

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from budgetrec_client.types import (
        AttributeList,
        AttributesQuery,
        BatchAnswer,
        Budgets,
        FoundItems,
        ItemsQuery,
        ModelDescription,
        Recommendation,
        RecommendRequest,
        Scenarios,
        ServedModels,
        SimilarItems,
        SimilarQuery,
        SomeUsers,
        SwapOutcome,
        UsersQuery,
        Versions,
    )


class _Settings:
    """What both clients are made with.

    key          sent as X-API-Key
    timeout      seconds that a call without a deadline may take, attempts and pauses included
    deadline_ms  the deadline of calls that name none
    retries      how often a read is tried again
    priority     `interactive` or `batch`: under overload, batch shrinks first
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 10.0,
        deadline_ms: float | None = None,
        retries: int = 2,
        priority: str | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {"X-API-Key": key} if key else {}
        if priority:
            self._headers["X-Priority"] = priority
        self._timeout = timeout
        self._deadline_ms = deadline_ms
        self._retries = retries

    def _attempts(self, question: Question) -> Attempts:
        return Attempts(question, timeout=self._timeout, deadline_ms=self._deadline_ms, retries=self._retries)


class Client(_Settings):
    """The calls, one after the other. Close it, or use it in a `with`; threads may share one."""

    def __init__(self, url: str, *, transport: httpx.BaseTransport | None = None, **settings: Any) -> None:
        super().__init__(url, **settings)
        self._http = httpx.Client(base_url=self._url, headers=self._headers, transport=transport)

    def recommend(self, **question: Unpack[RecommendRequest]) -> Recommendation:
        """Return the best items for a user or a vector that a budget, a recall or a deadline buys."""
        return cast("Recommendation", self._ask(recommend(question)))

    def recommend_batch(self, requests: Sequence[RecommendRequest], *, deadline_ms: float | None = None) -> BatchAnswer:
        """Answer many questions in one call, in their order."""
        body = {"requests": list(requests)}
        return cast("BatchAnswer", self._ask(Question("POST", "/recommend/batch", body, deadline_ms=deadline_ms)))

    def similar(self, **question: Unpack[SimilarQuery]) -> SimilarItems:
        """Return items like an item."""
        return cast("SimilarItems", self._ask(asked("/similar", question)))

    def budgets(self, model: str | None = None) -> Budgets:
        """Return what each budget buys and costs; `model` names one of several."""
        return cast("Budgets", self._ask(asked("/budgets", {"model": model})))

    def model(self, model: str | None = None) -> ModelDescription:
        """Return what is being served; `model` names one of several."""
        return cast("ModelDescription", self._ask(asked("/model", {"model": model})))

    def models(self) -> ServedModels:
        """Return all models that are being served, and how an experiment deals users out to them."""
        return cast("ServedModels", self._ask(Question("GET", "/models")))

    def scenarios(self) -> Scenarios:
        """Return the recipes that a question can name as its scenario."""
        return cast("Scenarios", self._ask(Question("GET", "/scenarios")))

    def items(self, **question: Unpack[ItemsQuery]) -> FoundItems:
        """Return items by words of their titles, or the popular ones."""
        return cast("FoundItems", self._ask(asked("/items", question)))

    def users(self, **question: Unpack[UsersQuery]) -> SomeUsers:
        """Return the ids of a few users, to try the service with."""
        return cast("SomeUsers", self._ask(asked("/users", question)))

    def attributes(self, **question: Unpack[AttributesQuery]) -> AttributeList:
        """Return what items can be filtered by, with some values."""
        return cast("AttributeList", self._ask(asked("/attributes", question)))

    def versions(self, model: str | None = None) -> Versions:
        """Return the versions of a model, the newest first; `model` names one of several."""
        return cast("Versions", self._ask(asked("/versions", {"model": model})))

    def reload(self, version: str | None = None, *, force: bool = False, model: str | None = None) -> SwapOutcome:
        """Load a version and swap it in; the client needs the admin key. Sent once. `model` names one of several."""
        body = {"version": version, "force": force, "model": model}
        return cast("SwapOutcome", self._ask(Question("POST", "/admin/reload", body, is_read=False)))

    def rollback(self, model: str | None = None) -> SwapOutcome:
        """Return to the version before; the client needs the admin key. Sent once. `model` names one of several."""
        return cast("SwapOutcome", self._ask(Question("POST", "/admin/rollback", {"model": model}, is_read=False)))

    def _ask(self, question: Question) -> Any:
        attempts = self._attempts(question)
        while True:
            timeout, headers = attempts.timeout(), attempts.headers()
            try:
                with self._http.stream(
                    question.method, question.path, json=question.body, headers=headers, timeout=timeout
                ) as response:
                    outcome: httpx.Response | httpx.HTTPError = attempts.read(response)
            except httpx.HTTPError as error:
                outcome = error
            answer = attempts.after(outcome)
            if not isinstance(answer, Wait):
                return answer
            time.sleep(answer.seconds)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Settings):
    """The same for asyncio: any number of calls at once. Cancelling a call ends its request."""

    def __init__(self, url: str, *, transport: httpx.AsyncBaseTransport | None = None, **settings: Any) -> None:
        super().__init__(url, **settings)
        self._http = httpx.AsyncClient(base_url=self._url, headers=self._headers, transport=transport)

    async def recommend(self, **question: Unpack[RecommendRequest]) -> Recommendation:
        """Return the best items for a user or a vector that a budget, a recall or a deadline buys."""
        return cast("Recommendation", await self._ask(recommend(question)))

    async def recommend_batch(
        self, requests: Sequence[RecommendRequest], *, deadline_ms: float | None = None
    ) -> BatchAnswer:
        """Answer many questions in one call, in their order."""
        question = Question("POST", "/recommend/batch", {"requests": list(requests)}, deadline_ms=deadline_ms)
        return cast("BatchAnswer", await self._ask(question))

    async def similar(self, **question: Unpack[SimilarQuery]) -> SimilarItems:
        """Return items like an item."""
        return cast("SimilarItems", await self._ask(asked("/similar", question)))

    async def budgets(self, model: str | None = None) -> Budgets:
        """Return what each budget buys and costs; `model` names one of several."""
        return cast("Budgets", await self._ask(asked("/budgets", {"model": model})))

    async def model(self, model: str | None = None) -> ModelDescription:
        """Return what is being served; `model` names one of several."""
        return cast("ModelDescription", await self._ask(asked("/model", {"model": model})))

    async def models(self) -> ServedModels:
        """Return all models that are being served, and how an experiment deals users out to them."""
        return cast("ServedModels", await self._ask(Question("GET", "/models")))

    async def scenarios(self) -> Scenarios:
        """Return the recipes that a question can name as its scenario."""
        return cast("Scenarios", await self._ask(Question("GET", "/scenarios")))

    async def items(self, **question: Unpack[ItemsQuery]) -> FoundItems:
        """Return items by words of their titles, or the popular ones."""
        return cast("FoundItems", await self._ask(asked("/items", question)))

    async def users(self, **question: Unpack[UsersQuery]) -> SomeUsers:
        """Return the ids of a few users, to try the service with."""
        return cast("SomeUsers", await self._ask(asked("/users", question)))

    async def attributes(self, **question: Unpack[AttributesQuery]) -> AttributeList:
        """Return what items can be filtered by, with some values."""
        return cast("AttributeList", await self._ask(asked("/attributes", question)))

    async def versions(self, model: str | None = None) -> Versions:
        """Return the versions of a model, the newest first; `model` names one of several."""
        return cast("Versions", await self._ask(asked("/versions", {"model": model})))

    async def reload(self, version: str | None = None, *, force: bool = False, model: str | None = None) -> SwapOutcome:
        """Load a version and swap it in; the client needs the admin key. Sent once. `model` names one of several."""
        body = {"version": version, "force": force, "model": model}
        return cast("SwapOutcome", await self._ask(Question("POST", "/admin/reload", body, is_read=False)))

    async def rollback(self, model: str | None = None) -> SwapOutcome:
        """Return to the version before; the client needs the admin key. Sent once. `model` names one of several."""
        return cast(
            "SwapOutcome", await self._ask(Question("POST", "/admin/rollback", {"model": model}, is_read=False))
        )

    async def _ask(self, question: Question) -> Any:
        attempts = self._attempts(question)
        while True:
            timeout, headers = attempts.timeout(), attempts.headers()
            try:
                async with asyncio.timeout(timeout):
                    outcome: httpx.Response | httpx.HTTPError | TimeoutError = await self._http.request(
                        question.method, question.path, json=question.body, headers=headers, timeout=None
                    )
            except (httpx.HTTPError, TimeoutError) as error:
                outcome = error
            answer = attempts.after(outcome)
            if not isinstance(answer, Wait):
                return answer
            await asyncio.sleep(answer.seconds)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
