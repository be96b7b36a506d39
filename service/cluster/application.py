"""The application that Serve runs: one deployment for each shard, and the ingress in front of them."""

from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.handle import DeploymentHandle

from greedy_core import Bundle, NotAModelError, VersionsFolder, is_bundle
from service.cluster.calling import Patience, ShardHandles
from service.cluster.scattered import shard_names
from service.cluster.shard import Shard
from service.cluster.worker import ClusterWorker
from service.http.app import create_app
from service.http.outer import OuterLayer
from service.settings import Settings

ONGOING = 256
# Each request that waits for its shards has a thread.
THREADS = 64


class ClusterArguments(BaseModel):
    """What the application is told: `serve run service.cluster:app models=/models replicas=2`, or a config file."""

    model_config = ConfigDict(extra="forbid")

    models: Path = Field(description="The models folder, whose current version has shards, or one such bundle.")
    replicas: int = Field(
        default=1, ge=1, le=1000, description="Replicas of each shard; with max_replicas the least of them."
    )
    max_replicas: int | None = Field(
        default=None, ge=1, le=1000, description="Scale each shard up to this, by the inner products in flight."
    )
    ingresses: int = Field(default=1, ge=1, le=1000, description="Replicas of the ingress.")
    shard_cpus: float = Field(
        default=1.0, ge=0, le=256, description="Cores that Ray sets aside for a replica of a shard."
    )
    ingress_cpus: float = Field(
        default=1.0, ge=0, le=256, description="Cores that Ray sets aside for a replica of the ingress."
    )
    shard_ms: float = Field(
        default=1000.0, ge=1, le=600_000, description="A request waits for its shards this long, or until its deadline."
    )
    hedge_ms: float = Field(
        default=50.0,
        ge=0,
        le=600_000,
        description="A shard that has not answered by then is asked a second time; 0 is never.",
    )
    health_check_seconds: float = Field(
        default=2.0, ge=0.1, le=600, description="How often Serve asks replicas how they are."
    )
    settings: dict[str, Any] = Field(
        default={},
        description="Settings of the service, as BUDGETREC_... variables name them; those of the nodes count, too.",
    )


class Ingress:
    """A replica of the front: the application of one machine, answered by shards."""

    def __init__(self, arguments: dict[str, Any], *shards: DeploymentHandle[Any]) -> None:
        given = ClusterArguments.model_validate(arguments)
        patience = Patience(seconds=given.shard_ms / 1000, hedge=given.hedge_ms / 1000)
        # Questions and answers are small: sent as they are, by gRPC, they arrive sooner than by Ray's object store.
        direct = [shard.options(_by_reference=False) for shard in shards]
        self.worker = ClusterWorker(settings_of(given), ShardHandles(direct, patience))

    def __serve_build_asgi_app__(self) -> OuterLayer:
        """Return what answers HTTP; called by Serve."""
        return create_app(self.worker)

    def check_health(self) -> None:
        """Raise if the replica should be replaced; called by Serve."""
        self.worker.check_health()


def app(arguments: ClusterArguments) -> Application:
    """Return the application for a models folder. Raises NotAModelError if its current version has no shards."""
    settings_of(arguments)
    bundle = current_bundle(arguments.models)
    checks: dict[str, Any] = {
        "health_check_period_s": arguments.health_check_seconds,
        "health_check_timeout_s": max(10.0, 5 * arguments.health_check_seconds),
        "graceful_shutdown_timeout_s": 10.0,
        "max_ongoing_requests": ONGOING,
        # A line for each call of each shard would cost more than the search.
        "logging_config": {"enable_access_log": False, "log_level": "WARNING"},
    }
    scaled: dict[str, Any] = {"num_replicas": arguments.replicas}
    if arguments.max_replicas is not None:
        scaled = {
            "autoscaling_config": AutoscalingConfig(
                min_replicas=arguments.replicas,
                max_replicas=max(arguments.replicas, arguments.max_replicas),
                policy=AutoscalingPolicy(policy_function="service.cluster.scaling:replicas_for"),
            )
        }
    shards = [
        _deployment(Shard)
        .options(name=f"shard-{number}", ray_actor_options={"num_cpus": arguments.shard_cpus}, **scaled, **checks)
        .bind(tuple(name))
        for number, name in enumerate(shard_names(bundle))
    ]
    front = _deployment(serve.ingress()(Ingress)).options(
        name="ingress",
        num_replicas=arguments.ingresses,
        ray_actor_options={"num_cpus": arguments.ingress_cpus},
        **checks,
    )
    bound: Application = front.bind(arguments.model_dump(mode="json"), *shards)
    return bound


def cores_wanted(arguments: ClusterArguments) -> float:
    """Return how many cores Ray has to set aside before the application is up."""
    shards = len(current_bundle(arguments.models).shards) * arguments.replicas
    return shards * arguments.shard_cpus + arguments.ingresses * arguments.ingress_cpus


def _deployment(of: type) -> serve.Deployment:
    """Return a deployment of a class; Serve's own function is also a decorator, and its type says that only."""
    made: Any = serve.deployment(of)
    return cast("serve.Deployment", made)


def settings_of(arguments: ClusterArguments) -> Settings:
    """Return the settings of an ingress. Raises ValueError for some that a cluster cannot serve by."""
    given: dict[str, Any] = {"threads": THREADS, "models": arguments.models.resolve()} | arguments.settings
    settings = Settings(**given)
    if len(settings.folders) > 1:
        raise ValueError("a cluster serves one model: give one models folder, and start another cluster for another.")
    if settings.workers > 1:
        raise ValueError("an ingress is one process: leave workers at 1, and give ingresses instead.")
    if settings.traces is not None:
        raise ValueError(
            "traces of a cluster are Ray's to make: unset traces, and see `ray start --tracing-startup-hook`."
        )
    return settings


def current_bundle(models: Path) -> Bundle:
    """Return the bundle that is to be served. Raises NotAModelError, with what to do."""
    place: Path | None = models
    if not is_bundle(models):
        place = VersionsFolder(models).current()
    if place is None:
        raise NotAModelError(f"{models} has no current version; build one with `budgetrec build --shards 4 --promote`.")
    bundle = Bundle.open(place.resolve())
    if not bundle.shards:
        raise NotAModelError(
            f"{place} has no shards; make some with `budgetrec shard {place} --shards 4 --models {models} --promote`."
        )
    return bundle
