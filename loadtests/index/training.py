"""The kinds of models that teams serve beside least squares, trained on any interactions.

    from loadtests.index import training
    users, items = training.train(pairs, "towers-cosine", dims=64, seed=0)

| method          | what it is                                                                                       |
|-----------------|--------------------------------------------------------------------------------------------------|
| `bpr`           | Bayesian personalised ranking by `implicit`; one dimension more, for the items' bias              |
| `logistic`      | logistic matrix factorisation by `implicit`; two dimensions more, for both sides' biases          |
| `towers`        | two towers (ID embedding, one hidden layer), dot product, softmax over the batch                  |
| `towers-cosine` | the same with both sides at unit length and a temperature of 0.07                                 |
| `lightgcn`      | the vectors of `towers` averaged over two steps of propagation along the interactions             |
| `sentence`      | unit vectors with a flat spectrum, as text encoders make them; a user is the mean of what was met |

The towers need the optional extra `towers` (torch). Both softmaxes are corrected by the items' share in the batches
(logQ), without which popular items would be pushed away for being drawn often.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from loadtests.index.datasets import Interactions

    Floats = NDArray[np.float32]

# With a number that changes with the recipe: vectors cached by an older one must not be met again.
METHODS = {"bpr": 1, "logistic": 1, "towers": 1, "towers-cosine": 1, "lightgcn": 1, "sentence": 1}

BATCH, TEMPERATURE = 1024, 0.07
# How often each interaction is seen, within bounds that keep a training at a few minutes.
EPOCHS, FEWEST_STEPS, MOST_STEPS = 6, 300, 5_000


def train(pairs: Interactions, method: str, dims: int, *, seed: int = 0) -> tuple[Floats, Floats]:
    """Return user and item vectors of about `dims` dimensions."""
    if method in ("bpr", "logistic"):
        return _factorise(pairs, method, dims, seed)
    if method == "sentence":
        return _sentences(pairs, dims, seed)
    users, items = _towers(pairs, dims, seed, cosine=method == "towers-cosine")
    return _propagated(pairs, users, items) if method == "lightgcn" else (users, items)


def _factorise(pairs: Interactions, method: str, dims: int, seed: int) -> tuple[Floats, Floats]:
    # implicit has threads of its own; with BLAS threads underneath it is many times slower, and says so.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from implicit.cpu.bpr import BayesianPersonalizedRanking  # noqa: PLC0415 - optional extra
    from implicit.cpu.lmf import LogisticMatrixFactorization  # noqa: PLC0415
    from scipy.sparse import csr_matrix  # noqa: PLC0415
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    matrix = csr_matrix((np.ones(pairs.user.size, dtype=np.float32), (pairs.user, pairs.item)))
    if method == "bpr":
        model = BayesianPersonalizedRanking(factors=dims, iterations=60, random_state=seed, num_threads=1)
    else:
        model = LogisticMatrixFactorization(factors=dims, iterations=30, random_state=seed, num_threads=1)
    with threadpool_limits(1, "blas"):
        model.fit(matrix, show_progress=False)
    return np.asarray(model.user_factors, dtype=np.float32), np.asarray(model.item_factors, dtype=np.float32)


def _towers(pairs: Interactions, dims: int, seed: int, *, cosine: bool) -> tuple[Floats, Floats]:
    import torch  # noqa: PLC0415 - optional extra

    torch.manual_seed(seed)
    n_users, n_items = int(pairs.user.max()) + 1, int(pairs.item.max()) + 1
    user = torch.from_numpy(pairs.user.astype(np.int64))
    item = torch.from_numpy(pairs.item.astype(np.int64))
    log_share = torch.log(torch.bincount(item, minlength=n_items).float() / len(item))

    def tower(n: int) -> torch.nn.ModuleList:
        identity = torch.nn.Embedding(n, dims, sparse=True)
        torch.nn.init.normal_(identity.weight, std=dims**-0.5)
        layers = torch.nn.Sequential(torch.nn.Linear(dims, 2 * dims), torch.nn.ReLU(), torch.nn.Linear(2 * dims, dims))
        return torch.nn.ModuleList([identity, layers])

    def look_up(side: torch.nn.ModuleList, rows: torch.Tensor) -> torch.Tensor:
        embedded = side[0](rows)
        out = embedded + side[1](embedded)
        return torch.nn.functional.normalize(out, dim=1) if cosine else out

    sides = tower(n_users), tower(n_items)
    sparse = torch.optim.SparseAdam([side[0].weight for side in sides], lr=5e-3)
    dense = torch.optim.Adam([p for side in sides for p in side[1].parameters()], lr=1e-3)
    steps = int(np.clip(EPOCHS * len(user) // BATCH, FEWEST_STEPS, MOST_STEPS))
    for step in range(steps):
        drawn = torch.randint(len(user), (BATCH,))
        met = item[drawn]
        logits = look_up(sides[0], user[drawn]) @ look_up(sides[1], met).T
        logits = logits / TEMPERATURE if cosine else logits
        logits = logits - log_share[met]
        # The same item met twice in a batch is no wrong answer.
        twice = (met[:, None] == met) & ~torch.eye(BATCH, dtype=torch.bool)
        loss = torch.nn.functional.cross_entropy(logits.masked_fill(twice, -1e9), torch.arange(BATCH))
        for optimiser in (sparse, dense):
            optimiser.zero_grad()
        loss.backward()
        for group in dense.param_groups:
            group["lr"] = 1e-3 * (1 - step / steps)
        for optimiser in (sparse, dense):
            optimiser.step()
    with torch.no_grad():
        found = [
            torch.cat([look_up(side, rows) for rows in torch.arange(len(side[0].weight)).split(1 << 14)])
            for side in sides
        ]
    return found[0].numpy(), found[1].numpy()


def _propagated(pairs: Interactions, users: Floats, items: Floats, layers: int = 2) -> tuple[Floats, Floats]:
    """Average what LightGCN's layers give: each is the symmetrically normalised sum over the interactions."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - optional extra

    weight = (np.bincount(pairs.user)[pairs.user] * np.bincount(pairs.item)[pairs.item]) ** -0.5
    across = csr_matrix((weight.astype(np.float32), (pairs.user, pairs.item)), shape=(len(users), len(items)))
    back = across.T.tocsr()
    user_sum, item_sum = users.copy(), items.copy()
    for _ in range(layers):
        users, items = across @ items, back @ users
        user_sum += users
        item_sum += items
    return user_sum / (layers + 1), item_sum / (layers + 1)


def _sentences(pairs: Interactions, dims: int, seed: int) -> tuple[Floats, Floats]:
    """Item vectors from the leading subspace of who met what, whitened: items of the same users are near."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - optional extra

    rng = np.random.default_rng([seed, dims])
    n_users, n_items = int(pairs.user.max()) + 1, int(pairs.item.max()) + 1
    matrix = csr_matrix(
        (np.ones(pairs.user.size, dtype=np.float32), (pairs.user, pairs.item)), shape=(n_users, n_items)
    )
    by_user = matrix.multiply(1 / np.sqrt(matrix.sum(axis=1))).tocsr().astype(np.float32)
    by_item = by_user.T.tocsr()
    items = rng.standard_normal((n_items, dims), dtype=np.float32)
    for _ in range(4):  # of a power iteration, held orthonormal: the leading subspace of items met together
        items = np.linalg.qr(by_item @ (by_user @ items))[0].astype(np.float32)
    items *= np.float32(n_items**0.5)
    length = np.linalg.norm(items, axis=1, keepdims=True)
    # What a text says beside what its readers have in common.
    items = _unit(items / np.maximum(length, 1e-6)) + np.float32(0.5 * dims**-0.5) * rng.standard_normal(
        items.shape, dtype=np.float32
    )
    items = _unit(items)
    return _unit(matrix @ items), items


def _unit(vectors: Floats) -> Floats:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(length > 0, length, 1)).astype(np.float32, copy=False)
