"""Figure 2 of the paper, step by step."""

import numpy as np
import pytest

from greedy_core import GreedyIndex, reference
from greedy_core.screening import MAX_VARIANTS

# s_t[r] and its h in the figure: item (2t + r) mod 7 + 1 holds -r, 8 - r and 10 (8 - r) - 1.
N, K = 7, 3
H = np.zeros((N, K), dtype=np.float32)
for t in range(1, K + 1):
    for r in range(1, N + 1):
        j = (2 * t + r) % N + 1
        H[j - 1, t - 1] = {1: -r, 2: N - r + 1, 3: 10 * (N - r + 1) - 1}[t]
W = np.array([1, 1, 0.1], dtype=np.float32)


def test_the_figure_is_the_one_in_the_paper():
    s = [[j + 1 for j in largest_first] for largest_first, _ in reference.sorted_index_arrays(H)]
    assert (s[0][3], s[1][0], s[2][4]) == (7, 6, 5)
    assert (H[7 - 1, 0], H[6 - 1, 1], H[5 - 1, 2]) == (-4, 7, 29)


@pytest.mark.parametrize("queue", [reference.MaxHeap, reference.SelectionTree])
def test_the_queue_starts_with_the_three_heads(queue):
    iters, q = reference.preprocess_query(H, W, queue, reference.sorted_index_arrays(H))
    heads = [q.pop() for _ in range(K)]
    assert [(round(z, 5), j + 1, t + 1) for z, j, t in heads] == [(7, 6, 2), (6.9, 1, 3), (-1, 4, 1)]
    assert {t + 1: iterator.current() + 1 for t, iterator in iters.items()} == {1: 4, 2: 6, 3: 1}


@pytest.mark.parametrize("queue", [reference.MaxHeap, reference.SelectionTree])
@pytest.mark.parametrize("screen", [reference.screen_original, reference.screen_improved])
def test_the_reference_takes_6_then_1_then_7(screen, queue):
    steps = [[j + 1 for j in screen(H, W, budget, queue=queue)] for budget in (1, 2, 3)]
    assert steps == [[6], [6, 1], [6, 1, 7]]


@pytest.mark.parametrize("variant", MAX_VARIANTS)
def test_every_variant_takes_6_then_1_then_7(variant):
    index = GreedyIndex.build(H)
    steps = [(index.screen(W, budget=budget, variant=variant) + 1).tolist() for budget in (1, 2, 3)]
    assert steps == [[6], [6, 1], [6, 1, 7]]


def test_the_joint_ranking_passes_over_item_1_on_list_2():
    joint = [
        (j + 1, t + 1) for _, j, t in reference.JointIterator(H, W, reference.MaxHeap, reference.sorted_index_arrays(H))
    ]
    assert joint[:5] == [(6, 2), (1, 3), (7, 2), (2, 3), (1, 2)]
    assert len(joint) == N * K


def test_item_1_has_the_largest_inner_product_and_is_found():
    result = GreedyIndex.build(H).search(W, top_k=1, budget=3)
    assert (result.ids + 1).tolist() == [1]
    assert result.spent == 3
    assert not result.complete
