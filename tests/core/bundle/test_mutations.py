"""A bundle with one thing wrong is refused, or answers as before; it never crashes, hangs or answers otherwise."""

import numpy as np
import pytest

from greedy_core import Attributes, FoldIn, GreedyIndex, SimilarItems, write_bundle
from loadtests.chaos.bundle_mutations import answers, judge, mutations


@pytest.fixture(scope="module", params=["graph", "axes"])
def bundle(request, tmp_path_factory):
    """A small bundle with every part that there is."""
    rng = np.random.default_rng(4)
    items = rng.normal(size=(40, 5)).astype(np.float32)
    users = rng.normal(size=(24, 5)).astype(np.float32)
    index = GreedyIndex.build(items, queries=users, directions=request.param, max_budget=30)
    users[3] = np.nan
    path = tmp_path_factory.mktemp("mutants") / "good"
    write_bundle(
        path,
        index=index,
        item_ids=[f"item ü{j}" for j in range(40)],
        user_vectors=users,
        user_ids=[f"user {u}" for u in range(24)],
        seen=(np.arange(25) * 2, rng.integers(40, size=48)),
        titles=[f"Straße {j}" if j % 3 else None for j in range(40)],
        similar=SimilarItems.build(index, directions=request.param),
        fold_in=FoldIn(regularization=0.5, alpha=2.0),
        attributes=Attributes.from_columns(
            {"price": [j % 7 + 0.5 for j in range(40)], "tags": [["a", "b"][: j % 3] for j in range(40)]}, 40
        ),
    )
    return path


def test_no_mutant_is_believed(bundle, tmp_path):
    expected = answers(bundle)
    wrong, count = [], 0
    for count, mutation in enumerate(mutations(bundle, seed=1), start=1):
        verdict = judge(mutation.make(bundle, tmp_path / str(count)), expected)
        if verdict not in mutation.allowed:
            wrong.append(f"{mutation.name}: {verdict}")
    assert wrong == []
    assert count > 900
    assert answers(bundle) == expected


def test_the_judge_sees_a_difference(bundle, tmp_path):
    """Among the plausible mutants are such that answer differently: otherwise nothing would be tested."""
    expected = answers(bundle)
    wanted = ("users.vectors", "attributes.0.codes")
    plausible = [
        mutation for mutation in mutations(bundle, 1) if mutation.plausible and mutation.name.startswith(wanted)
    ]
    verdicts = {judge(mutation.make(bundle, tmp_path / str(i)), expected) for i, mutation in enumerate(plausible)}
    assert "different" in verdicts
