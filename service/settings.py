"""Every knob of the service, with its bounds, in one place.

Sources, strongest first: arguments of `Settings(...)` (the command line), environment variables
`BUDGETREC_<NAME>`, the TOML file named by `BUDGETREC_SETTINGS_FILE`, the defaults below. A value outside its
bounds stops the start with its name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from service.http.keys import Keyring

SETTINGS_FILE_VARIABLE = "BUDGETREC_SETTINGS_FILE"
PREFIX = "BUDGETREC_"

# Where `budgetrec demo` and `make serve` put a model when nobody names one.
DEFAULT_MODELS = Path("models")


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
        30.0, ge=0.1, le=3600, description="A caller that does not read its answer is cut off after this long."
    )
    lane: bool = Field(True, description="Answer GET /recommend before it becomes an ASGI request.")
    run_dir: Path | None = Field(
        None, description="Keep the memory that workers share in files of this folder; else it has no name."
    )

    # --- the model
    models: Path = Field(DEFAULT_MODELS, description="A models folder with a `current` pointer, or one bundle.")
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
        0.02, ge=0, le=1, description="A new model may lose this much calibrated recall at the default budget."
    )

    # --- what a request may ask
    default_budget: int = Field(256, ge=1, le=10**9, description="Inner products when a request names nothing.")
    max_budget: int = Field(65_536, ge=1, le=10**9, description="A larger budget is lowered to this.")
    default_top_k: int = Field(10, ge=1, le=10_000, description="Items when a request does not say.")
    max_top_k: int = Field(1000, ge=1, le=10_000, description="The largest `top_k`.")
    max_exclude: int = Field(100_000, ge=0, le=10_000_000, description="The most ids one request may exclude.")
    max_batch: int = Field(1000, ge=1, le=100_000, description="The most entries in one batch.")
    body_limit: int = Field(8 << 20, ge=1024, le=1 << 30, description="Largest request body, in bytes.")
    header_limit: int = Field(64 << 10, ge=1024, le=1 << 20, description="Largest request line and headers, in bytes.")
    max_batch_items: int = Field(
        100_000, ge=1, le=10**7, description="The most items that all answers of one batch may have together."
    )
    deadline_recall: float = Field(
        0.99, ge=0.01, le=1, description="A deadline alone buys no more than this calibrated recall@10 needs."
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
        (), description="Origins that may call from a browser, or *."
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

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split_origins(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if self.default_budget > self.max_budget:
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

    def printable(self) -> dict[str, Any]:
        """Every setting as JSON values, keys masked: what `budgetrec serve --print-settings` shows."""
        return self.model_dump(mode="json")
