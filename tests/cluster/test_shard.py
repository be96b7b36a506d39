"""A replica of a shard, without Serve around it: what it opens, what it refuses, and when it wants to be replaced."""

import asyncio
import shutil

import numpy as np
import pytest

from greedy_core import CorruptModelError, NotAModelError, ShardQuestions

pytestmark = [
    pytest.mark.needs_packages("ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]


@pytest.fixture
def folder(models, tmp_path):
    shutil.copytree(models / "v1", tmp_path / "v1")
    shutil.copytree(models / "v2", tmp_path / "v2")
    return tmp_path


def name_of(path, number=0):
    from greedy_core import Bundle  # noqa: PLC0415
    from service.cluster.scattered import shard_names  # noqa: PLC0415

    return shard_names(Bundle.open(path))[number]


def asked(dims=12):
    return ShardQuestions([0], np.ones((1, dims), np.float32), 5, [20], [None], None, [None], [None], None)


def test_a_replica_that_starts_late_does_not_need_the_version_that_was_pruned(folder):
    from service.cluster.shard import Shard  # noqa: PLC0415

    pruned, current = name_of(folder / "v1"), name_of(folder / "v2")
    shutil.rmtree(folder / "v1")
    replica = Shard(pruned)
    replica.check_health()
    (result,) = asyncio.run(replica.search(current, asked(), False))
    assert len(result.ids) == 5
    replica.check_health()


def test_a_replica_that_sees_no_models_wants_to_be_replaced(folder):
    from service.cluster.shard import Shard  # noqa: PLC0415

    name = name_of(folder / "v1")
    shutil.rmtree(folder / "v1")
    replica = Shard(name)
    with pytest.raises(NotAModelError):
        asyncio.run(replica.search(name, asked(), False))
    with pytest.raises(RuntimeError, match="no version of this shard is open"):
        replica.check_health()


def test_another_shard_under_the_same_path_is_refused(folder):
    from service.cluster.shard import Shard  # noqa: PLC0415

    name = name_of(folder / "v1")
    replica = Shard(name)
    with pytest.raises(CorruptModelError, match="is another shard than the one that was asked for"):
        asyncio.run(replica.load(name._replace(checksum="0" * 64), False))
    replica.check_health()


def test_no_more_versions_are_open_than_are_kept(folder, models):
    from service.cluster.shard import KEPT, Shard  # noqa: PLC0415

    replica = Shard(name_of(folder / "v1"))
    for place in (folder / "v2", models / "v1", models / "v2"):
        asyncio.run(replica.load(name_of(place), True))
    assert len(replica._opened) == KEPT
    (result,) = asyncio.run(replica.search(name_of(folder / "v1"), asked(), False))
    assert len(result.ids) == 5
