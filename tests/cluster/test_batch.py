"""The night's work and the building of shards on a real Ray: the same files as on one machine."""

import numpy as np
import pytest

from greedy_core import Bundle, Order, StorageError, build_shards, read_manifest, write_recommendations
from greedy_core import recommendations as recommending
from service.cli import run
from tests.cluster.conftest import vectors

pytestmark = [
    pytest.mark.needs_packages("ray", "pyarrow"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 50 users, so that there are several; those who write them are told which users are theirs."""
    monkeypatch.setattr(recommending, "_PART_USERS", 50)


def test_the_file_is_the_same_byte_for_byte(ray_here, models, tmp_path):
    arguments = ["recommend", str(models), "--all-users", "--budget", "64"]
    assert run([*arguments, "--output", str(tmp_path / "here.parquet")]) == 0
    assert run([*arguments, "--output", str(tmp_path / "there.parquet"), "--ray", "--workers", "1"]) == 0
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()
    assert not (tmp_path / "there.parquet.parts").exists()


def test_parts_that_are_there_are_not_written_again(models, tmp_path, small_parts):
    bundle, order = Bundle.open(models / "v1"), Order(None, 5, 64)
    write_recommendations(bundle, tmp_path / "whole.parquet", order)
    given = []

    def dies(parts):
        given.append(parts.missing)
        write = parts.writer()
        yield write(parts.missing[-1])
        raise StorageError("the worker is gone")

    def goes_on(parts):
        given.append(parts.missing)
        yield from map(parts.writer(), reversed(parts.missing))

    with pytest.raises(StorageError, match="gone"):
        write_recommendations(bundle, tmp_path / "recs.parquet", order, elsewhere=dies)
    written = write_recommendations(bundle, tmp_path / "recs.parquet", order, elsewhere=goes_on)
    assert given == [(0, 1, 2), (0, 1)]
    assert written.n_resumed == 20
    assert (tmp_path / "recs.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_another_model_under_the_same_path_is_refused(models):
    parts = recommending.Parts((models / "v1", "0" * 64), Order(None, 5, 64), 0, models, (0,))
    with pytest.raises(StorageError, match="is another model here"):
        parts.writer()


def test_shards_that_ray_built_are_those_built_here(ray_here, models, tmp_path):
    from service.cluster.building import build_on_ray  # noqa: PLC0415

    items, users = vectors(1)
    arguments = {"items": items, "users": users[:-1], "directions": "principal", "max_budget": 64, "calibrated": False}
    here = build_shards(tmp_path / "here", 3, **arguments)
    there = build_shards(tmp_path / "there", 3, **arguments, build=build_on_ray)
    for mine, theirs in zip(here.shards, there.shards, strict=True):
        assert read_manifest(mine.path).files == read_manifest(theirs.path).files
    assert np.array_equal(here.user_remembered(3), there.user_remembered(3))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["recommend", "models", "--all-users", "--output", "r.parquet", "--workers", "2"], "give --ray"),
        (["build", "--items", "i.npy", "--output", "b", "--ray"], "say how many with --shards"),
    ],
)
def test_options_that_need_others_are_refused(arguments, said, capsys):
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


def test_a_folder_without_shards_is_not_served(tmp_path, capsys):
    assert run(["cluster", "serve", "--models", str(tmp_path)]) == 1
    assert "has no current version" in capsys.readouterr().err
