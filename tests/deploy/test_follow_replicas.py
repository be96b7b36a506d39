"""The script that starts nginx in compose: with commands that pretend, it is seen to reload when a replica came."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loadtests.http.fleet import DEPLOY
from loadtests.http.processes import Running, poll


@pytest.fixture
def pretended(tmp_path):
    """Folder with `names`, which getent prints, `calls`, what nginx was called with, and `looks`, one line per look."""
    commands = {
        "getent": 'echo look >>"$PLACE/looks"; cat "$PLACE/names"',
        "nginx": 'echo "$@" >>"$PLACE/calls"; case "$*" in *"-s reload"*) ;; *) exec sleep 60 ;; esac',
    }
    for name, text in commands.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    for name in ("calls", "looks", "names"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def script(pretended):
    process = Running(
        ["/bin/sh", str(DEPLOY / "nginx" / "follow-replicas.sh")],
        log=pretended / "log",
        env={"PATH": f"{pretended}:{os.environ['PATH']}", "PLACE": str(pretended), "REPLICAS_EVERY": "0.02"},
    )
    yield process
    process.kill()


def lines(path):
    return path.read_text().splitlines()


def look_again(folder):
    """Wait until the script has looked twice from now, so that it has drawn its conclusions from the first."""
    seen = len(lines(folder / "looks"))
    poll(lambda: len(lines(folder / "looks")) >= seen + 2, seconds=10, what="the script to look")


def resolve(folder, *addresses):
    # As glibc prints it: one line per kind of socket.
    text = "".join(f"{address} {kind} budgetrec\n" for address in addresses for kind in ("STREAM", "DGRAM"))
    fresh = folder / "names.new"
    fresh.write_text(text)
    fresh.replace(folder / "names")
    look_again(folder)


def reloads(folder):
    return sum("-s reload" in call for call in lines(folder / "calls"))


def test_nginx_waits_for_the_first_replica_and_is_told_about_new_ones_only(pretended, script):
    look_again(pretended)
    assert lines(pretended / "calls") == []
    resolve(pretended, "10.0.0.1", "10.0.0.2")
    poll(lambda: bool(lines(pretended / "calls")), seconds=10, what="nginx to be started")
    look_again(pretended)
    assert lines(pretended / "calls") == ["-p /tmp/ -c /etc/budgetrec/nginx.conf -g daemon off;"]
    # nginx has taken the place of the shell and gets its signals.
    assert Path(f"/proc/{script.pid}/exe").readlink().name in {"sleep", "busybox", "coreutils"}

    resolve(pretended, "10.0.0.2")
    resolve(pretended)
    resolve(pretended, "10.0.0.2", "10.0.0.1")
    assert reloads(pretended) == 0

    resolve(pretended, "10.0.0.2", "10.0.0.11")
    poll(lambda: reloads(pretended) == 1, seconds=10, what="the reload")
    resolve(pretended, "10.0.0.11", "10.0.0.2")
    assert reloads(pretended) == 1
