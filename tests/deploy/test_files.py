"""What linters say about the deployment's files, and whether these agree with the service and each other."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from loadtests.http.fleet import DEPLOY, REPOSITORY, need_command
from service.settings import Settings

SCRIPTS = sorted(path.relative_to(REPOSITORY).as_posix() for path in DEPLOY.rglob("*.sh"))
LINTERS = {
    "hadolint": ["hadolint", "Dockerfile", "deploy/ray/Dockerfile"],
    "shellcheck": ["shellcheck", *SCRIPTS],
    "yamllint": ["yamllint", "-c", "deploy/yamllint.yaml", "--strict", "docker-compose.yml", "deploy"],
    "compose": ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"],
}
NGINX = (DEPLOY / "nginx" / "nginx.conf").read_text()


@pytest.mark.parametrize(
    "command",
    [pytest.param(command, id=name, marks=pytest.mark.needs(command[0])) for name, command in LINTERS.items()],
)
def test_linter_is_content(command):
    done = subprocess.run(
        [need_command(command[0]), *command[1:]], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SCRIPTS)
def test_scripts_can_be_run(path):
    assert (REPOSITORY / path).stat().st_mode & 0o111


def compose():
    return yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())


def test_compose_publishes_on_loopback_only():
    ports = [port for service in compose()["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_compose_confines_every_container():
    for service in compose()["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]


def test_compose_mounts_files_that_exist():
    sources = [
        volume.split(":")[0]
        for service in compose()["services"].values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert sources
    for source in sources:
        assert (REPOSITORY / source).is_dir()


def test_image_settings_and_compose_settings_are_the_service_s():
    names = re.findall(r"\bBUDGETREC_(\w+)", (REPOSITORY / "Dockerfile").read_text())
    names += [
        name.removeprefix("BUDGETREC_")
        for service in compose()["services"].values()
        for name in service.get("environment", {})
        if name.startswith("BUDGETREC_")
    ]
    assert {name.lower() for name in names} <= set(Settings.model_fields)


def test_time_and_size_limits_fit_together():
    settings = Settings()
    upstream = NGINX[NGINX.index("upstream replicas {") :]
    keep_alive = int(re.search(r"keepalive_timeout (\d+)s;", upstream)[1])
    assert keep_alive < settings.keep_alive_seconds
    assert int(re.search(r"client_max_body_size (\d+)m;", NGINX)[1]) << 20 == settings.body_limit
    count, size = re.search(r"large_client_header_buffers (\d+) (\d+)k;", NGINX).groups()
    assert int(count) * int(size) << 10 == settings.header_limit
    grace = int(compose()["services"]["budgetrec"]["stop_grace_period"].removesuffix("s"))
    assert grace > settings.grace_seconds + settings.drain_seconds
