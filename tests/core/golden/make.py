"""Writes the golden bundle: once per format version, from the root, with `python -m tests.core.golden.make`.

The files stay as they were written: a release that no longer opens them has to say so, or learn to.
"""

from pathlib import Path

import numpy as np

from greedy_core import GreedyIndex, write_bundle
from greedy_core.bundle import manifest

# The seven items of the paper's figure 2: list x holds item mod(2x + y, 7) + 1 in place y, with this value.
ITEMS = np.empty((7, 3), dtype=np.float32)
for y in range(1, 8):
    for x, value in ((1, -y), (2, 8 - y), (3, 10 * (8 - y) - 1)):
        ITEMS[(2 * x + y) % 7, x - 1] = value

ITEM_IDS = ["a/b", "ünïcödé ☃", 'quote"back\\slash', "42", "x" * 1000, " ", "\n"]
TITLES = ["First", None, "", "Vierte Straße", "🎷", "Six", "Seven"]
USERS = np.array([[1, 1, 0.1], [np.nan, np.nan, np.nan], [0, 0, -1]], dtype=np.float32)
USER_IDS = [42, "nobody", "user/é"]
SEEN = (np.array([0, 2, 2, 3]), np.array([5, 6, 0]))


def main() -> None:
    """Write the bundle."""
    name = f"bundle-v{manifest.FORMAT_VERSION}"
    write_bundle(
        Path(__file__).parent / name,
        index=GreedyIndex.build(ITEMS, directions="axes", max_budget=4),
        item_ids=ITEM_IDS,
        user_vectors=USERS,
        user_ids=USER_IDS,
        seen=SEEN,
        titles=TITLES,
        calibration={"points": [{"budget": 3, "recall_at_10": 0.5}]},
        metadata={"made_by": "tests/core/golden/make.py"},
    )


if __name__ == "__main__":
    main()
