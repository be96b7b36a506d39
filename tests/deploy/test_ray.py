"""The files for a cluster are what Serve and the application take, and agree with each other."""

import re

import kubernetes_validate
import pytest
import yaml

from loadtests.http.fleet import DEPLOY

pytestmark = [
    pytest.mark.needs_packages("ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]
CONFIG = yaml.safe_load((DEPLOY / "ray" / "serve.yaml").read_text())
SERVICE = yaml.safe_load((DEPLOY / "ray" / "rayservice.yaml").read_text())


def test_serve_takes_the_config():
    from ray.serve.schema import ServeDeploySchema  # noqa: PLC0415

    parsed = ServeDeploySchema.model_validate(CONFIG)
    assert [application.import_path for application in parsed.applications] == ["service.cluster:app"]


def test_the_application_takes_its_arguments():
    from service.cluster.application import ClusterArguments  # noqa: PLC0415

    (application,) = CONFIG["applications"]
    arguments = ClusterArguments.model_validate(application["args"])
    assert arguments.max_replicas > arguments.replicas > 1
    assert arguments.hedge_ms < arguments.shard_ms


def test_the_manifest_runs_the_same_config():
    assert yaml.safe_load(SERVICE["spec"]["serveConfigV2"]) == CONFIG


def test_every_container_sees_the_models_and_runs_the_same_image():
    cluster = SERVICE["spec"]["rayClusterConfig"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    containers = [container for group in groups for container in group["template"]["spec"]["containers"]]
    (application,) = CONFIG["applications"]
    for container in containers:
        mounted = {mount["mountPath"]: mount["readOnly"] for mount in container["volumeMounts"]}
        assert mounted[application["args"]["models"]] is True
    assert len({container["image"] for container in containers}) == 1


def test_the_pods_are_what_kubernetes_takes():
    cluster = SERVICE["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a-pod"}, "spec": group["template"]["spec"]}
        kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


def test_all_nodes_run_the_ray_that_the_manifest_names():
    (version,) = re.findall(r"ARG RAY_VERSION=(\S+)", (DEPLOY / "ray" / "Dockerfile").read_text())
    assert SERVICE["spec"]["rayClusterConfig"]["rayVersion"] == version


def test_a_version_with_shards_is_asked_for(tmp_path):
    from greedy_core import NotAModelError  # noqa: PLC0415
    from service.cluster.application import ClusterArguments, app  # noqa: PLC0415
    from tests.service.conftest import write_numbered_model  # noqa: PLC0415

    write_numbered_model(tmp_path / "v1")
    with pytest.raises(NotAModelError, match="has no shards; make some with `budgetrec shard"):
        app(ClusterArguments(models=tmp_path / "v1"))
    with pytest.raises(ValueError, match="leave workers at 1"):
        app(ClusterArguments(models=tmp_path / "v1", settings={"workers": 2}))
    with pytest.raises(ValueError, match="one models folder"):
        app(ClusterArguments(models=tmp_path / "v1", settings={"models": {"a": "a", "b": "b"}}))
