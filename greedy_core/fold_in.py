"""A vector for somebody who is not in the model, made of items that were met.

    items met, weights ──┬──► fold-in: the least squares of implicit ALS, the items' vectors held fixed  (FoldIn given)
                         └──► the weighted mean of the items' vectors                                    (any other)

A fold-in minimises what the training minimised, so it gives the vector that the training would have given: with the
Gram matrix G of all items, and c = alpha * weight for how certain each of the items U is,

    (G + regularization * I + U'(C - I)U) x = U'c

This is the convention of `implicit` 0.7 (`recalculate_user`). Neither way counts as an inner product of a budget: it
prepares the query, as a rotation does.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from greedy_core._fold_in import fold_in, weighted_mean
from greedy_core.errors import CorruptModelError, InvalidEmbeddingsError, InvalidQueryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

    Matrix: TypeAlias = npt.NDArray[np.float64]
    Positions: TypeAlias = npt.NDArray[np.int32]

Made: TypeAlias = Literal["fold_in", "mean", "moved"]

LARGEST_WEIGHT = 1e6
_LARGEST_PARAMETER = 1e9
# With a condition beyond this an inverse has no digits left that float32 could hold.
_WORST_CONDITION = 1e11
_BLOCK_ROWS = 1 << 16
# How far a vector moves towards the mean of the items where there is no fold-in. For held-out items of users of a BPR
# model who met one to ten new ones 0.3 to 0.5 is best, for those of an ALS model 0.1: between the two.
_MOVED = 0.2


@dataclass(frozen=True)
class FoldIn:
    """How an implicit ALS model was trained: a bundle that knows it folds in new users as the training would have.

    regularization, alpha  those of the training, where a meeting of weight w is as certain as alpha * w
    """

    regularization: float
    alpha: float

    def __post_init__(self) -> None:
        for name, value, least in (("regularization", self.regularization, 0.0), ("alpha", self.alpha, math.ulp(0.0))):
            number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
            if not number or not least <= value <= _LARGEST_PARAMETER:
                lowest = "from 0" if least == 0.0 else "above 0"
                raise InvalidEmbeddingsError(
                    f"the {name} of a fold-in must be a number {lowest} up to 1e9, but {value!r} was given; "
                    "give the one that the model was trained with."
                )

    def to_dict(self) -> dict[str, float]:
        """Return what JSON can hold."""
        return {name: float(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> FoldIn:
        """Return what `to_dict` described. Raises CorruptModelError."""
        try:
            return cls(**stored)
        except (TypeError, InvalidEmbeddingsError) as reason:
            raise CorruptModelError(f"this is no fold-in: {reason}; build the model again.") from None


class MadeVector(NamedTuple):
    """A vector, and how it was made."""

    vector: Float32Array
    made: Made


class ItemsMet(NamedTuple):
    """Items that somebody met, each once, by position ascending: the order they came in means nothing."""

    positions: Positions
    weights: npt.NDArray[np.float64]

    @classmethod
    def of(cls, positions: npt.ArrayLike, weights: Sequence[float] | npt.NDArray[Any] | None, n_items: int) -> ItemsMet:
        """Check positions and weights; the weights of an item that comes twice add up. Raises InvalidQueryError."""
        given = np.asarray(positions)
        if given.ndim != 1 or len(given) == 0 or given.dtype.kind not in "iu":
            raise InvalidQueryError("items must be a flat list of at least one position, and this is something else.")
        if given.min() < 0 or given.max() >= n_items:
            raise InvalidQueryError(f"positions of items go from 0 to {n_items - 1}, and one of these does not.")
        weighed = np.ones(len(given)) if weights is None else _checked_weights(weights, len(given))
        if len(given) == 1 or (given[1:] > given[:-1]).all():
            return cls(given.astype(np.int32, copy=False), weighed)
        # Sorted by both, so that not even the rounding of a sum depends on the order.
        order = np.lexsort((weighed, given))
        given, weighed = given[order], weighed[order]
        first = np.flatnonzero(np.diff(given, prepend=-1))
        return cls(given[first].astype(np.int32, copy=False), np.add.reduceat(weighed, first))


def gram_of(items: Float32Array) -> Matrix:
    """Return the sum of the items' outer products with themselves."""
    gram = np.zeros((items.shape[1], items.shape[1]))
    for start in range(0, len(items), _BLOCK_ROWS):
        block = items[start : start + _BLOCK_ROWS].astype(np.float64)
        gram += block.T @ block
    return gram


class FoldInSystem(NamedTuple):
    """What a model needs to fold in: its parameters, G + regularization * I and the inverse of that."""

    parameters: FoldIn
    gram: Matrix
    inverse: Matrix

    @classmethod
    def of(cls, parameters: FoldIn, items: Float32Array) -> FoldInSystem:
        """Compute both from the items. Raises InvalidEmbeddingsError where no fold-in would have one answer."""
        return cls.of_gram(parameters, gram_of(items), len(items))

    @classmethod
    def of_gram(cls, parameters: FoldIn, gram: Matrix, n_items: int) -> FoldInSystem:
        """Compute both from the Gram matrix of so many items, which may lie in several places."""
        n_dims = len(gram)
        gram = (gram + gram.T) / 2
        gram[np.diag_indices(n_dims)] += parameters.regularization
        values, vectors = np.linalg.eigh(gram)
        if not values[0] * _WORST_CONDITION > values[-1]:
            raise InvalidEmbeddingsError(
                f"with a regularization of {parameters.regularization:g} these {n_items} items of {n_dims} "
                "dimensions leave a fold-in open; give a larger one, or leave the fold-in out."
            )
        inverse = (vectors / values) @ vectors.T
        return cls(parameters, gram, np.ascontiguousarray((inverse + inverse.T) / 2))

    def verify(self) -> None:
        """Raise CorruptModelError unless the two matrices belong to each other."""
        eye = np.eye(len(self.gram))
        finite = np.isfinite(self.gram).all() and np.isfinite(self.inverse).all()
        if not finite or not np.allclose(self.gram @ self.inverse, eye, atol=1e-4):
            raise CorruptModelError("the matrices of the fold-in do not fit to each other; build the model again.")


def make_vector(
    items: Float32Array, system: FoldInSystem | None, met: ItemsMet, prior: Float32Array | None = None
) -> MadeVector:
    """Return the vector of somebody who met these items, by a fold-in or, without a system, as their mean.

    prior  the vector that this one had before, which what was met then moves; what it was made of counts on

    The same items, weights and prior give the same bits on every machine, in whatever order they come.
    """
    if system is None:
        mean = weighted_mean(items, met.positions, met.weights)
        return MadeVector(mean if prior is None else _moved_towards(prior, mean), "mean" if prior is None else "moved")
    certain = met.weights * system.parameters.alpha
    vector = fold_in(items, system.gram, system.inverse, met.positions, certain, prior)
    if vector is None:
        raise InvalidQueryError("these weights are too far apart to fold in; give weights of a similar size.")
    return MadeVector(vector, "fold_in" if prior is None else "moved")


def _moved_towards(prior: Float32Array, mean: Float32Array) -> Float32Array:
    """Return a vector moved towards another one that is stretched to its length."""
    length, reached = length_of(prior), length_of(mean)
    if length == 0.0 or reached == 0.0:
        return mean if length == 0.0 else prior
    stretched = mean.astype(np.float64) * (length / reached)
    return ((1 - _MOVED) * prior.astype(np.float64) + _MOVED * stretched).astype(np.float32)


def length_of(vector: Float32Array) -> float:
    """Return the length of a vector. fsum: a sum that rounds once has the same bits everywhere."""
    return math.sqrt(math.fsum(value * value for value in vector.tolist()))


def _checked_weights(weights: Sequence[float] | npt.NDArray[Any], count: int) -> npt.NDArray[np.float64]:
    given = np.asarray(weights)
    if given.dtype.kind not in "iuf" or given.shape != (count,):
        raise InvalidQueryError(f"weights must be {count} numbers, one for each item, and these are something else.")
    weighed = given.astype(np.float64)
    bad = ~((weighed > 0) & (weighed <= LARGEST_WEIGHT))
    if bad.any():
        raise InvalidQueryError(
            f"a weight must be a number above 0 and up to {LARGEST_WEIGHT:.0e}, but one is {weighed[bad][0]:g}; "
            "leave out items that do not count."
        )
    return weighed
