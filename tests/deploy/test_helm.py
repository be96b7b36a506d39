"""The Helm chart, rendered by helm itself: valid with every value, and the same pods as kustomize's."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache

import kubernetes_validate
import pytest
import yaml

from loadtests.http.fleet import DEPLOY, need_command
from service.settings import Settings

CHART = DEPLOY / "helm" / "budgetrec"
VERSIONS = ["1.28", kubernetes_validate.latest_version()]
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
# Each switches something on that is off, or off that is on.
CASES = {
    "as it is": (),
    "demo": ("model.source=demo", "autoscaling.enabled=false", "replicas=3"),
    "traced": ("settings.traces=http://otel.tracing:4318", "networkPolicy.tracesNamespace=tracing"),
    "own claim": ("model.existingClaim=mine", "networkPolicy.enabled=false", "nodeSelector.disk=ssd"),
    "storage": ("model.storageClass=nfs", "image.pullSecrets[0].name=me", "podAnnotations.team=shop"),
    "outside": ("ingress.enabled=true", "ingress.className=nginx", "ingress.tlsSecret=tls", "service.port=8080"),
}

pytestmark = pytest.mark.needs("helm")


def helm(*arguments):
    return subprocess.run([need_command("helm"), *arguments], capture_output=True, text=True, check=False, timeout=60)


@cache
def rendered(case, release="budgetrec"):
    done = helm("template", release, str(CHART), *(f"--set={value}" for value in CASES[case]))
    assert done.returncode == 0, done.stderr
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}


def pod_of(manifests):
    return manifests["Deployment"]["spec"]["template"]["spec"]


def test_helm_s_own_linter_is_content():
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_manifests_follow_the_schemas(case, version):
    for manifest in rendered(case).values():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_pods_are_those_of_kustomize():
    base = DEPLOY / "kubernetes" / "base"
    theirs = yaml.safe_load((base / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    ours = json.loads(json.dumps(pod_of(rendered("as it is"))))
    for pod in (ours, theirs):
        (container,) = pod["containers"]
        del container["image"]
        container.pop("imagePullPolicy", None)
        container["env"] = [each for each in container["env"] if each["name"] == "BUDGETREC_ADMIN_KEY"]
        for spread in pod["topologySpreadConstraints"]:
            del spread["labelSelector"]
    assert ours == theirs
    settings = yaml.safe_load((base / "settings.yaml").read_text())["data"]
    assert rendered("as it is")["ConfigMap"]["data"] == settings
    for kind, file in (("HorizontalPodAutoscaler", "autoscaler"), ("NetworkPolicy", "network-policy")):
        spec = yaml.safe_load((base / f"{file}.yaml").read_text())["spec"]
        mine = rendered("as it is")[kind]["spec"]
        assert {name: mine[name] for name in mine if name != "podSelector"} == {
            name: spec[name] for name in spec if name != "podSelector"
        }


@pytest.mark.parametrize("case", CASES)
def test_selectors_find_the_pods_of_their_own_release_only(case):
    manifests, other = rendered(case), rendered(case, "second")
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for each, is_own in ((manifests, True), (other, False)):
        selectors = [
            each["Deployment"]["spec"]["selector"]["matchLabels"],
            each["Service"]["spec"]["selector"],
            each["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        ]
        assert {selector.items() <= labels.items() for selector in selectors} == {is_own}
    assert other["Deployment"]["metadata"]["name"] == "second-budgetrec"


@pytest.mark.parametrize("case", CASES)
def test_pods_are_confined_and_end_in_time(case, monkeypatch):
    manifests = rendered(case)
    pod = pod_of(manifests)
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in (*pod["containers"], *pod.get("initContainers", [])):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    for variable, value in manifests["ConfigMap"]["data"].items():
        assert variable.removeprefix("BUDGETREC_").lower() in Settings.model_fields
        monkeypatch.setenv(variable, value)
    settings = Settings()
    assert pod["terminationGracePeriodSeconds"] > settings.drain_seconds + settings.grace_seconds


def test_what_the_values_switch():
    assert "replicas" not in rendered("as it is")["Deployment"]["spec"]
    assert rendered("demo")["Deployment"]["spec"]["replicas"] == 3
    assert {"HorizontalPodAutoscaler", "PersistentVolumeClaim"} & set(rendered("demo")) == set()
    assert rendered("traced")["NetworkPolicy"]["spec"]["egress"][0]["ports"] == [{"protocol": "TCP", "port": 4318}]
    assert {"NetworkPolicy", "PersistentVolumeClaim"} & set(rendered("own claim")) == set()
    assert pod_of(rendered("own claim"))["volumes"][0]["persistentVolumeClaim"]["claimName"] == "mine"
    assert rendered("storage")["PersistentVolumeClaim"]["spec"]["storageClassName"] == "nfs"
    paths = [path["path"] for path in rendered("outside")["Ingress"]["spec"]["rules"][0]["http"]["paths"]]
    assert "/recommend" in paths
    assert not {"/", "/admin", "/metrics"} & set(paths)


def test_numbers_of_a_values_file_reach_the_service_as_they_were_written(tmp_path, monkeypatch):
    wanted = {"max_budget": 5_000_000, "default_budget": 2_000_000, "traces_share": 0.015, "page": False}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"settings": wanted}))
    done = helm("template", "budgetrec", str(CHART), "--values", str(tmp_path / "values.yaml"))
    assert done.returncode == 0, done.stderr
    written = {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}["ConfigMap"]["data"]
    for variable, value in written.items():
        monkeypatch.setenv(variable, value)
    read = Settings()
    assert {name: getattr(read, name) for name in wanted} == wanted


def test_other_settings_make_other_pods():
    first, second = (
        rendered(case)["Deployment"]["spec"]["template"]["metadata"]["annotations"]["budgetrec/settings"]
        for case in ("as it is", "traced")
    )
    assert first != second


def test_a_value_that_makes_no_sense_is_refused():
    done = helm("template", "budgetrec", str(CHART), "--set=model.source=s3")
    assert done.returncode != 0
    assert "it takes claim or demo" in done.stderr


def test_every_value_is_used_and_documented():
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    text = (CHART / "values.yaml").read_text()
    for name, value in VALUES.items():
        assert f".Values.{name}" in templates
        for inner in value if isinstance(value, dict) and name not in ("settings", "resources") else ():
            assert f".Values.{name}.{inner}" in templates, f"{name}.{inner}"
    used = set(re.findall(r"\.Values\.(\w+)", templates))
    assert used == set(VALUES)
    assert text.count("#") >= 15
