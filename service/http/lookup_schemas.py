"""The JSON of the calls that look things up."""

from __future__ import annotations

from pydantic import BaseModel, Field

from greedy_core import GreedyIndex
from service.http.schemas import AttributeDescription


class NamedItem(BaseModel):
    """An item of the catalogue."""

    item_id: str
    title: str | None = Field(description="Null for an item that has none.")


class FoundItems(BaseModel):
    """Items found by their titles."""

    model: str = Field(description="Version of the model whose items these are.")
    items: list[NamedItem] = Field(description="The popular ones first; an item whose id was asked for comes first.")
    complete: bool = Field(description="There are no others: neither was the limit reached, nor the bound of work.")


class SomeUsers(BaseModel):
    """A few users of the model."""

    model: str = Field(description="Version of the model whose users these are.")
    n_users: int
    users: list[str] = Field(description="Ids of users that have a vector, from all over the table.")


class AttributeValues(AttributeDescription):
    """An attribute of the items, with some of its values."""

    some: list[str | float | bool] = Field(
        description="The first values: of texts, those that begin as was asked; of numbers and times, the least and "
        "the largest."
    )


class AttributeList(BaseModel):
    """What items can be filtered by."""

    model: str = Field(description="Version of the model whose attributes these are.")
    attributes: list[AttributeValues]


class Version(BaseModel):
    """A version of a model, as it lies in its folder."""

    version: str
    is_current: bool = Field(description="It is what the folder's pointer says.")
    is_previous: bool = Field(description="A rollback would return to it.")
    built_at: str | None
    n_items: int | None
    recall_at_10: float | None = Field(
        description="Calibrated recall against exact search, for known users, at one budget: that of the settings, or "
        f"{GreedyIndex.default_budget} where they name a recall."
    )
    ndcg_at_10: float | None = Field(description="On real behaviour, of an exact search, where training measured it.")


class Versions(BaseModel):
    """The versions of a model."""

    served: str | None = Field(description="The version that answers; null while none is loaded.")
    n_versions: int = Field(description="How many there are; the newest are described.")
    versions: list[Version] = Field(description="The newest first.")
