"""The short forms of the suite of faults, against real processes: nothing may be wrong.

The overload and the storm of large budgets are left to `make chaos`: what they bound is time.
"""

import pytest

from loadtests.chaos.parts import PARTS, run_part
from loadtests.chaos.trial import QUICK

IN_TESTS = [name for name in PARTS if name != "overload"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """One place for all parts, so that the models are built once."""
    return tmp_path_factory.mktemp("chaos")


@pytest.mark.parametrize("name", IN_TESTS)
def test_nothing_is_wrong(name, directory):
    trial = run_part(name, QUICK, directory)
    assert trial.done["checks"] > 0
    assert not trial.faults, "\n".join(
        f"{count} x {fault}: {trial.details.get(fault, [])}" for fault, count in trial.faults.items()
    )
