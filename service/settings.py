"""Every knob of the service, with its bounds, in one place.

Sources, strongest first: arguments of `Settings(...)` (the command line), environment variables
`BUDGETREC_<NAME>`, the TOML file named by `BUDGETREC_SETTINGS_FILE`, the defaults below. A value outside its
bounds stops the start with its name.
"""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AnyHttpUrl,
    Field,
    InstanceOf,
    PrivateAttr,
    SecretStr,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from greedy_core import Filter, InvalidFilterError, InvalidScenariosError, Scenario, load_scenarios
from service.experiment import NAME, Experiment
from service.http.keys import Keyring

SETTINGS_FILE_VARIABLE = "BUDGETREC_SETTINGS_FILE"
PREFIX = "BUDGETREC_"

# Where `budgetrec demo` and `make serve` put a model when nobody names one.
DEFAULT_MODELS = Path("models")

MOST_MODELS = 16
# Good answers on any model: what they cost is the model's to say.
DEFAULT_RECALL = 0.95
# The name of a single model that the settings give none.
UNNAMED = "default"


def unknown_variables() -> list[str]:
    """Return the environment variables that look like settings and are none: typing errors, most likely."""
    known = {PREFIX + name.upper() for name in Settings.model_fields} | {SETTINGS_FILE_VARIABLE}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)


class Settings(BaseSettings):
    """The settings of one service; immutable once made."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, hide_input_in_errors=True)

    # --- where it listens
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    workers: int = Field(1, ge=1, le=256, description="Worker processes; they share one copy of the model.")
    backlog: int = Field(2048, ge=1, le=65535, description="Connections the kernel may hold before they are accepted.")
    keep_alive_seconds: int = Field(75, ge=1, le=3600, description="An idle connection is closed after this long.")
    grace_seconds: float = Field(20.0, ge=0.1, le=3600, description="After SIGTERM, running requests have this long.")
    drain_seconds: float = Field(
        0.0, ge=0, le=600, description="After SIGTERM, serve on this long while reporting not ready."
    )
    max_connections: int = Field(
        10_000, ge=1, le=1_000_000, description="Connections of one worker; past this the longest idle one is closed."
    )
    receive_seconds: float = Field(
        30.0, ge=0.1, le=3600, description="A request must have arrived whole this long after its first byte."
    )
    send_seconds: float = Field(
        30.0, ge=0.1, le=3600, description="A caller that has not read its answer whole after this long is cut off."
    )
    lane: bool = Field(True, description="Answer GET /recommend before it becomes an ASGI request.")
    run_dir: Path | None = Field(
        None, description="Keep the memory that workers share in files of this folder; else it has no name."
    )

    # --- the model
    models: Annotated[Path | dict[str, Path], NoDecode] = Field(
        DEFAULT_MODELS,
        description="A models folder with a `current` pointer, or one bundle; or several by name, as "
        '{"main": "/models/main", "new": "/models/new"}: requests choose with model=new, and get the first otherwise.',
    )
    experiment: Annotated[InstanceOf[Experiment] | None, NoDecode] = Field(
        None,
        description="Users without model= are dealt out to several models, by a hash of their ids: "
        '{"name": "two-towers", "arms": {"main": 0.9, "new": 0.1}}.',
    )
    verify: bool = Field(True, description="Check every checksum before a model serves.")
    warm_up_queries: int = Field(
        200, ge=0, le=100_000, description="Recent queries replayed on a model before it serves."
    )
    poll_seconds: float = Field(0.25, ge=0.01, le=60, description="How often a worker looks for a changed model.")
    follow_seconds: float = Field(
        10.0, ge=0.1, le=3600, description="A worker that cannot follow a changed model reports not ready after this."
    )
    wait: bool = Field(False, description="Start although the models folder is not there yet, and wait for it.")
    recall_tolerance: float = Field(
        0.02,
        ge=0,
        le=1,
        description="A new model may lose this much calibrated recall against exact search at the default budget.",
    )
    ndcg_tolerance: float | None = Field(
        None,
        ge=0,
        le=1,
        description="A new model may lose this share of the running one's NDCG@10 on real behaviour at the default "
        "budget, as `budgetrec train` measured both; unset, it is not compared.",
    )

    # --- what a request may ask
    default_budget: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="Inner products when a request names nothing; unset, as many as `default_recall` needs.",
    )
    default_recall: float = Field(
        DEFAULT_RECALL,
        ge=0.01,
        le=1,
        description="A request that names nothing gets the smallest budget with this calibrated recall@10 against "
        "exact search for vectors from outside, under a filter by the share of the items that it leaves; without a "
        "calibration, 256.",
    )
    max_budget: int = Field(65_536, ge=1, le=10**9, description="A larger budget is lowered to this.")
    default_top_k: int = Field(10, ge=1, le=10_000, description="Items when a request does not say.")
    max_top_k: int = Field(1000, ge=1, le=10_000, description="The largest `top_k`.")
    max_exclude: int = Field(100_000, ge=0, le=10_000_000, description="The most ids one request may exclude.")
    max_items: int = Field(
        1000, ge=1, le=100_000, description="The most items that one request's vector may be made of."
    )
    max_batch: int = Field(1000, ge=1, le=100_000, description="The most entries in one batch.")
    body_limit: int = Field(8 << 20, ge=1024, le=1 << 30, description="Largest request body, in bytes.")
    header_limit: int = Field(64 << 10, ge=1024, le=1 << 20, description="Largest request line and headers, in bytes.")
    max_batch_items: int = Field(
        100_000, ge=1, le=10**7, description="The most items that all answers of one batch may have together."
    )
    deadline_recall: float = Field(
        0.99, ge=0.01, le=1, description="A deadline alone buys no more than this recall@10 against exact search needs."
    )
    filters: Annotated[dict[str, str], NoDecode] = Field(
        {}, description='Filters that requests may name: {"available": "in_stock"} is used as filter=@available.'
    )
    default_filter: str = Field("", max_length=16_384, description="A filter that applies to every request.")
    scenarios: Path | None = Field(
        None,
        description="A file of scenarios, .toml or .json: recipes of budget, filter and rules that requests name with "
        "scenario=home. Read again on SIGHUP.",
    )
    max_offset: int = Field(1000, ge=0, le=100_000, description="The largest `offset`.")
    filter_cache_mb: int = Field(
        64, ge=1, le=65_536, description="What filters let through is kept in so much memory of a worker."
    )
    unknown_user: Literal["popular", "not_found"] = Field("popular", description="What an unknown user gets.")

    # --- work and overload
    threads: int = Field(1, ge=1, le=256, description="Threads per worker for searches too long for the event loop.")
    inline_ms: float = Field(0.5, ge=0, le=100, description="Searches expected to take longer go to a thread.")
    overload_wait_ms: float = Field(10.0, ge=0.1, le=60_000, description="Budgets shrink when work would wait longer.")
    shed_wait_ms: float = Field(
        150.0, ge=1, le=600_000, description="Requests are refused when work would wait longer."
    )
    recovery_seconds: float = Field(2.0, ge=0.05, le=600, description="Half-life of the pressure after an overload.")
    interactive_floor: int = Field(
        32, ge=1, le=10**9, description="Smallest budget overload leaves an interactive call."
    )
    batch_floor: int = Field(16, ge=1, le=10**9, description="Smallest budget overload leaves a batch call.")

    # --- who may call
    api_keys: SecretStr = Field(
        SecretStr(""), description="Keys, comma-separated: `name:key` or `name:key:products_per_second`."
    )
    api_keys_file: Path | None = Field(None, description="The same, one per line; # starts a comment.")
    browse_keys: SecretStr = Field(
        SecretStr(""),
        description="Keys that may stand in web pages, comma-separated: `name:key:products_per_second:origin origin…`.",
    )
    browse_keys_file: Path | None = Field(None, description="The same, one per line; # starts a comment.")
    admin_key: SecretStr | None = Field(
        None, description="Key of the admin calls; without it, only programs on this machine."
    )
    admin_socket: Path | None = Field(
        None, description="A unix socket for the operator: admin calls on it need no key."
    )
    admin_key_file: Path | None = Field(None, description="File that holds the admin key.")
    key_products_per_second: float = Field(
        0, ge=0, le=1e15, description="Limit for keys that name none; 0 means no limit."
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Origins that may call everything from a browser, or *; browse keys bring their own."
    )

    page: bool = Field(
        True,
        description="Serve the page at / and the calls that it looks items, users, attributes and versions up with.",
    )

    # --- what it says
    log_format: Literal["json", "console"] = Field("console", description="Shape of a log line.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lines below this are not written."
    )
    log_sample: float = Field(0.01, ge=0, le=1, description="Share of the answered requests that get a line.")
    monitor_share: float = Field(
        0.01, ge=0, le=1, description="Share of the requests re-run exactly by the recall monitor."
    )
    monitor_cpu: float = Field(0.05, ge=0.001, le=1, description="Share of one core that the recall monitor may use.")

    traces: AnyHttpUrl | None = Field(
        None, description="Send traces to the OpenTelemetry collector at this address, like http://collector:4318."
    )
    traces_share: float = Field(
        0.05, ge=0, le=1, description="Share of the requests traced, of those whose caller has not decided it."
    )

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split_origins(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("models", mode="before")
    @classmethod
    def _read_models(cls, value: object) -> object:
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValueError("models must be a path, or a JSON object of names and paths") from None
        if isinstance(value, dict):
            _check_models(value)
        return value

    @field_validator("experiment", mode="before")
    @classmethod
    def _read_experiment(cls, value: object) -> object:
        return None if value is None or value == "" else Experiment.read(value)

    @field_serializer("experiment")
    def _show_experiment(self, experiment: Experiment | None) -> object:
        return None if experiment is None else {"name": experiment.name, "arms": dict(experiment.shares)}

    @field_validator("filters", mode="before")
    @classmethod
    def _read_filters(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            found = json.loads(value or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
            raise ValueError('filters must be a JSON object of names and filters, as {"available": "in_stock"}')
        return found

    @model_validator(mode="after")
    def _filters_can_be_read(self) -> Settings:
        for name, text in self.filters.items():
            if not NAME.fullmatch(name):
                raise ValueError(f"{name[:80]!r} is no name for a filter; use up to 64 letters, digits, - and _")
            try:
                Filter(text)
            except InvalidFilterError as error:
                raise ValueError(f"the filter {name} cannot be read: {error}") from None
        if self.default_filter:
            try:
                Filter(self.default_filter, {name: Filter(text) for name, text in self.filters.items()})
            except InvalidFilterError as error:
                raise ValueError(f"default_filter cannot be read: {error}") from None
        return self

    # As they were at the start: what the file says later counts only once a worker has found nothing wrong with it.
    _scenarios: dict[str, Scenario] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _scenarios_can_be_read(self) -> Settings:
        try:
            self._scenarios = self.load_scenarios()
        except InvalidScenariosError as error:
            raise ValueError(f"scenarios cannot be used: {error}") from None
        return self

    @field_validator("traces", "default_budget", "scenarios", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        # A compose file can set a variable to nothing, but not leave it out.
        return None if value == "" else value

    @model_validator(mode="after")
    def _experiment_has_models(self) -> Settings:
        if self.experiment is not None:
            self.experiment.check(self.folders)
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if self.default_budget is not None and self.default_budget > self.max_budget:
            raise ValueError(
                f"default_budget {self.default_budget} is above max_budget {self.max_budget}; "
                "lower one or raise the other"
            )
        if self.default_top_k > self.max_top_k:
            raise ValueError(
                f"default_top_k {self.default_top_k} is above max_top_k {self.max_top_k}; lower one or raise the other"
            )
        if self.shed_wait_ms < self.overload_wait_ms:
            raise ValueError(
                f"shed_wait_ms {self.shed_wait_ms} is below overload_wait_ms {self.overload_wait_ms}; "
                "budgets shrink before requests are refused, so raise it"
            )
        if self.traces is not None and find_spec("opentelemetry.exporter") is None:
            raise ValueError(
                "traces need packages that are not installed; in a clone, `pip install '.[traces]'` brings them"
            )
        # A fault in the keys is the operator's to see at the start, not a worker's to die of.
        Keyring.from_settings(self)
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the file."""
        sources: list[PydanticBaseSettingsSource] = [init_settings, env_settings]
        path = os.environ.get(SETTINGS_FILE_VARIABLE)
        if path:
            if not Path(path).is_file():
                raise FileNotFoundError(
                    f"{SETTINGS_FILE_VARIABLE} names {path}, which is no file; point it at a TOML file or unset it"
                )
            sources.append(TomlConfigSettingsSource(settings_cls, toml_file=path))
        return tuple(sources)

    @property
    def folders(self) -> dict[str, Path]:
        """Where each model lies, by its name; the first answers whoever names none."""
        return {UNNAMED: self.models} if isinstance(self.models, Path) else self.models

    @property
    def first_scenarios(self) -> dict[str, Scenario]:
        """The scenarios by name, as they were when the settings were made."""
        return self._scenarios

    def load_scenarios(self) -> dict[str, Scenario]:
        """Read the scenarios as the file has them now. Raises InvalidScenariosError."""
        if self.scenarios is None:
            return {}
        return load_scenarios(self.scenarios, {name: Filter(text) for name, text in self.filters.items()})

    def printable(self) -> dict[str, Any]:
        """Every setting as JSON values, keys masked: what `budgetrec serve --print-settings` shows."""
        return self.model_dump(mode="json")


def _check_models(models: dict[Any, Any]) -> None:
    """Raise a ValueError with one sentence if these are no models by name."""
    if not 1 <= len(models) <= MOST_MODELS:
        raise ValueError(f"models has {len(models)} names; give 1 to {MOST_MODELS}, or one path")
    for name, path in models.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"{str(name)[:80]!r} is no name for a model; use up to 64 letters, digits, - and _")
        if not isinstance(path, str | Path) or not str(path):
            raise ValueError(f"the model {name} has no path; name its models folder")
