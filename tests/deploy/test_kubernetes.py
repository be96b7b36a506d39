"""The manifests as kustomize puts them together: valid, and consistent with each other and the service."""

from __future__ import annotations

import subprocess
from functools import cache

import kubernetes_validate
import pytest
import yaml

from loadtests.http.fleet import DEPLOY, need_command
from service.settings import Settings
from service.telemetry.families import LAYOUT

FOLDER = DEPLOY / "kubernetes"
OVERLAYS = ["demo", "fetched", "production"]
# The oldest release that is still supported somewhere, and the newest the validator knows.
VERSIONS = ["1.28", kubernetes_validate.latest_version()]

pytestmark = pytest.mark.needs("kubectl")


@cache
def manifests(folder):
    done = subprocess.run(
        [need_command("kubectl"), "kustomize", str(FOLDER / folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}


def overlay(name):
    return manifests(f"overlays/{name}")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", ["base", *(f"overlays/{name}" for name in OVERLAYS)])
def test_manifests_follow_the_schemas(folder, version):
    for manifest in manifests(folder).values():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_base_holds_what_an_operator_expects():
    kinds = {kind for kind, _ in manifests("base")}
    assert kinds == {
        "ConfigMap",
        "Deployment",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    }


@pytest.mark.parametrize("name", OVERLAYS)
def test_selectors_find_the_pods(name):
    everything = overlay(name)
    template = everything["Deployment", "budgetrec"]["spec"]["template"]
    selectors = [
        everything["Deployment", "budgetrec"]["spec"]["selector"]["matchLabels"],
        everything["Service", "budgetrec"]["spec"]["selector"],
        everything["PodDisruptionBudget", "budgetrec"]["spec"]["selector"]["matchLabels"],
        everything["NetworkPolicy", "budgetrec"]["spec"]["podSelector"]["matchLabels"],
        template["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= template["metadata"]["labels"].items()


@pytest.mark.parametrize("name", OVERLAYS)
def test_pods_are_confined(name):
    pod = overlay(name)["Deployment", "budgetrec"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in (*pod["containers"], *pod.get("initContainers", [])):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("name", OVERLAYS)
def test_probes_ask_different_questions(name):
    (container,) = overlay(name)["Deployment", "budgetrec"]["spec"]["template"]["spec"]["containers"]
    paths = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
    assert paths == {
        "startupProbe": "/health/ready",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }


@pytest.mark.parametrize("name", OVERLAYS)
def test_settings_are_the_service_s(name, monkeypatch):
    everything = overlay(name)
    (container,) = everything["Deployment", "budgetrec"]["spec"]["template"]["spec"]["containers"]
    plain = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    for variable, value in {**everything["ConfigMap", "budgetrec-settings"]["data"], **plain}.items():
        assert variable.removeprefix("BUDGETREC_").lower() in Settings.model_fields
        monkeypatch.setenv(variable, value)
    settings = Settings()
    grace = everything["Deployment", "budgetrec"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > settings.drain_seconds + settings.grace_seconds


def test_autoscaler_follows_a_metric_that_the_adapter_makes_from_one_of_ours():
    (metric,) = manifests("base")["HorizontalPodAutoscaler", "budgetrec"]["spec"]["metrics"]
    (rule,) = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["rules"]
    assert metric["pods"]["metric"]["name"] == rule["name"]["as"]
    assert rule["seriesQuery"].split("{")[0] in {family.name for family in LAYOUT.families}


def test_network_policy_lets_callers_and_prometheus_in_and_nothing_out():
    policy = manifests("base")["NetworkPolicy", "budgetrec"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == []
    (rule,) = policy["ingress"]
    assert {"podSelector": {"matchLabels": {"budgetrec-client": "true"}}} in rule["from"]


@pytest.mark.parametrize("name", ["demo", "fetched"])
def test_a_model_of_the_pod_s_own_needs_no_volume_claim(name):
    everything = overlay(name)
    assert ("PersistentVolumeClaim", "budgetrec-models") not in everything
    volumes = everything["Deployment", "budgetrec"]["spec"]["template"]["spec"]["volumes"]
    assert all("emptyDir" in volume for volume in volumes)


def test_a_fetched_model_is_served_from_where_it_was_put():
    pod = overlay("fetched")["Deployment", "budgetrec"]["spec"]["template"]["spec"]
    (fetch,), (container,) = pod["initContainers"], pod["containers"]
    assert fetch["args"][-1] == container["args"][-1]
    assert overlay("fetched")["NetworkPolicy", "budgetrec"]["spec"]["egress"] != []
