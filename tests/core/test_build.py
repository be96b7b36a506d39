"""The recipe from vectors to a bundle, and that it does its work once."""

import numpy as np
import pytest

from greedy_core import Calibration, build_bundle, embeddings
from greedy_core.fit import directions

RNG = np.random.default_rng(5)
ITEMS = RNG.normal(size=(300, 8)).astype(np.float32)
USERS = RNG.normal(size=(1000, 8)).astype(np.float32)


@pytest.fixture
def looked_at(monkeypatch):
    """How many rows of each kind of vectors were checked, by the name they were checked under."""
    rows = {}
    check = embeddings._refuse_unusable

    def counted(given, converted, start, name, error):
        rows[name] = rows.get(name, 0) + len(given)
        check(given, converted, start, name, error)

    monkeypatch.setattr(embeddings, "_refuse_unusable", counted)
    return rows


def test_every_user_is_validated_once(tmp_path, looked_at):
    build_bundle(tmp_path / "m", items=ITEMS, users=USERS, directions="graph", calibrated=False, similar=False)
    looked_at.pop("queries")  # a search looks at what it is asked with
    assert looked_at == {"items": 300, "user vectors": 1000}


def test_the_second_moment_is_computed_once_for_all_kinds(tmp_path, monkeypatch):
    computed = []
    second_moment = directions.second_moment
    monkeypatch.setattr(directions, "second_moment", lambda x: computed.append(len(x)) or second_moment(x))
    build_bundle(tmp_path / "m", items=ITEMS, users=USERS, directions="auto", calibrated=False, similar=False)
    assert computed == [300, 900]


def test_the_calibration_says_whether_its_sample_was_held_out(tmp_path):
    many = build_bundle(tmp_path / "many", items=ITEMS, users=USERS, directions="axes")
    few = build_bundle(tmp_path / "few", items=ITEMS, users=USERS[:100], directions="axes")
    assert Calibration.from_dict(many.calibration).held_out
    assert not Calibration.from_dict(few.calibration).held_out


def test_users_without_a_vector_take_no_part(tmp_path):
    users = USERS.copy()
    users[::2] = np.nan
    made = build_bundle(tmp_path / "m", items=ITEMS, users=users, directions="principal")
    assert made.user_vector(0) is None
    assert made.user_vector(1).tolist() == USERS[1].tolist()
    only = build_bundle(tmp_path / "only", items=ITEMS, users=USERS[1::2], directions="principal")
    np.testing.assert_array_equal(made.index.to_arrays()[0]["axes"], only.index.to_arrays()[0]["axes"])


def test_without_users_there_is_no_calibration(tmp_path):
    assert build_bundle(tmp_path / "m", items=ITEMS, directions="axes").calibration is None
    nobody = np.full((3, 8), np.nan, dtype=np.float32)
    assert build_bundle(tmp_path / "n", items=ITEMS, users=nobody, directions="axes").calibration is None
