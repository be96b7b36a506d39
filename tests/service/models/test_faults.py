"""Models that are gone, altered or unreadable: the service says so, tries again, and never answers from two at once."""

import os
import shutil
import signal

import httpx
import pytest

from greedy_core import StorageError, VersionsFolder
from service.process.supervisor import serve
from service.settings import Settings
from tests.service.conftest import write_model
from tests.service.running import in_process, poll, server


def version(app):
    return app.get("/recommend?user_id=u9&budget=64").json()["model"]


def test_a_worker_without_a_model_follows_the_pointer(folder, tmp_path):
    """The version that was decided is gone when a worker starts: it waits for another one and says so."""
    shared = {"poll_seconds": 0.02, "workers": 2, "run_dir": tmp_path / "run"}
    with in_process(folder.path, **shared) as first:
        shutil.rmtree(folder.path / "v1")
        with in_process(folder.path, slot=1, wait=False, **shared) as second:
            poll(lambda: "'v1' could not be loaded" in second.get("/health/ready").text, "what it waits for")
            assert second.metric('budgetrec_model_swaps_total{outcome="not_followed"}') >= 1
            folder.promote("v2")
            poll(lambda: second.get("/health/ready").status_code == 200, "the new worker to be ready")
            poll(lambda: version(first) == version(second) == "v2", "both to serve what was promoted")


def test_a_worker_that_failed_once_tries_again(folder, tmp_path):
    shared = {"poll_seconds": 0.02, "workers": 2, "run_dir": tmp_path / "run", "follow_seconds": 0.1}
    with in_process(folder.path, **shared) as first, in_process(folder.path, slot=1, **shared) as second:
        hidden = tmp_path / "hidden"
        loader = second.worker.keeper._loader
        load, loader.load = loader.load, lambda path, *rest, **named: load(hidden, *rest, **named)
        outcome = first.post("/admin/reload", json={"version": "v2"})
        assert outcome.json()["workers"] == {"total": 2, "serving": 1}
        assert (version(first), version(second)) == ("v2", "v1")
        poll(lambda: second.get("/health/ready").status_code == 503, "not ready after having been behind for too long")
        assert "cannot follow" in second.get("/health/ready").text
        assert second.metric('budgetrec_model_swaps_total{outcome="not_followed"}') >= 1
        assert second.metric("budgetrec_ready") == 0
        loader.load = load
        poll(lambda: version(second) == "v2", "the next try")
        poll(lambda: second.get("/health/ready").status_code == 200, "ready again")


def test_a_swap_while_draining_does_not_report_ready(folder):
    with in_process(folder.path, poll_seconds=0.02) as app:
        app.worker.drain()
        folder.promote("v2")
        poll(lambda: version(app) == "v2", "the swap")
        assert app.metric("budgetrec_ready") == 0
        assert app.get("/health/ready").status_code == 503


def test_a_bundle_altered_within_the_run_is_not_served_by_the_next_worker(folder, tmp_path):
    with server(folder.path, tmp_path / "log", workers=1, poll_seconds=0.05) as running:
        assert version(running) == "v1"
        victim = max((folder.path / "v1").glob("*.npy"), key=lambda file: file.stat().st_size)
        altered = victim.read_bytes()[:-64] + bytes(64)
        temporary = victim.with_suffix(".new")
        temporary.write_bytes(altered)
        temporary.replace(victim)
        (worker,) = running.workers()
        os.kill(worker, 9)
        poll(lambda: running.workers() not in ([], [worker]), "another worker")
        poll(lambda: "could not be loaded" in running.fresh("/health/ready").text, "the refusal")
        assert running.fresh("/recommend?user_id=u9").status_code == 503
        assert any("checksum" in line["reason"] for line in running.logged("model not loaded"))
        folder.promote("v2")
        poll(lambda: running.fresh("/health/ready").status_code == 200, "the other version")


def test_a_model_without_a_calibration_does_not_slip_past_the_gate(folder):
    write_model(folder.path / "unmeasured", seed=5, calibration=None)
    with in_process(folder.path, poll_seconds=0.02) as app:
        folder.promote("unmeasured")
        poll(lambda: app.metric('budgetrec_model_swaps_total{outcome="refused"}') == 1, "the refusal")
        assert version(app) == "v1"
        assert app.post("/admin/reload", json={"version": "unmeasured"}).status_code == 409
        assert app.post("/admin/reload", json={"version": "unmeasured", "force": True}).status_code == 200


def test_a_read_only_folder_can_be_rolled_back(folder, monkeypatch):
    def refused(*_):
        raise StorageError("the folder cannot be written: Read-only file system.")

    with in_process(folder.path, poll_seconds=10) as app:
        monkeypatch.setattr(VersionsFolder, "_put", refused)
        assert app.post("/admin/reload", json={"version": "v2"}).json()["version"] == "v2"
        assert folder.current_version() == "v1"
        assert app.post("/admin/rollback").json()["version"] == "v1"


def test_nothing_is_left_in_the_temporary_folder(model, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "log").touch()
    with server(model.path, tmp_path / "log", workers=2) as running:
        running.process.kill()
        running.process.wait()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["log"]


@pytest.mark.parametrize("with_socket", [True, False])
def test_the_operators_socket_needs_no_key(folder, tmp_path, with_socket):
    path = tmp_path / "admin.sock"
    with server(folder.path, tmp_path / "log", api_keys="shop:shop-secret-key", admin_socket=path) as running:
        if not with_socket:
            assert running.post("/admin/reload").status_code == 403
            return
        assert path.stat().st_mode & 0o777 == 0o600
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://budgetrec") as operator:
            assert operator.post("/admin/reload", json={"version": "v2"}).json()["version"] == "v2"
            assert operator.post("/admin/rollback").json()["version"] == "v1"
    assert not path.exists()


def test_a_start_that_fails_leaves_what_was_there(model, tmp_path):
    precious = tmp_path / "file"
    precious.write_text("precious")
    with pytest.raises(OSError, match="admin socket"):
        serve(Settings(models=model.path, port=0, admin_socket=precious))
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("fault", ["directory", "loop", "history"])
def test_a_folder_at_fault_is_a_409_with_the_reason(folder, fault):
    with in_process(folder.path, poll_seconds=10) as app:
        current = folder.path / "current"
        if fault == "history":
            (folder.path / "history.json").write_text('[["a"]]')
        else:
            current.unlink()
        if fault == "directory":
            current.mkdir()
        elif fault == "loop":
            current.symlink_to("current")
        response = app.post("/admin/rollback")
        assert response.status_code == 409
        assert response.json()["error"]["code"] in {"swap_refused", "nothing_to_roll_back"}
        assert version(app) == "v1"


def test_a_burst_of_signals_is_one_more_reload(folder, tmp_path):
    with server(folder.path, tmp_path / "log", poll_seconds=0.05) as running:
        for _ in range(200):
            running.signal(signal.SIGHUP)
        poll(lambda: running.metric('budgetrec_model_swaps_total{outcome="swapped"}') >= 1, "a reload")
        assert running.stop() == 0
        assert len(running.logged("model ready")) < 20
