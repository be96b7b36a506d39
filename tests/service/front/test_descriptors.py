"""A worker has as many connections as it has descriptors for."""

import subprocess
import sys

import pytest

from service.front.descriptors import FILES

ASKED = """
import resource
from service.front.descriptors import room_for
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(room_for(1000), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "room", "raised"),
    [
        (256, 4000, 1000, 2000 + FILES),
        (3000, 4000, 1000, 3000),
        (256, 1000, (1000 - FILES) // 2, 1000),
        (20, 20, 1, 20),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_it_may_be(soft, hard, room, raised):
    code = ASKED.format(soft=soft, hard=hard)
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == [str(room), str(raised), str(hard)]
