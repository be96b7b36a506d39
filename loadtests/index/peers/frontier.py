"""The best envelope of each family, its time at a recall level, and the verdict. Pure arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

LEVELS = (0.80, 0.90, 0.95, 0.99)


class Point(NamedTuple):
    """One setting, measured."""

    family: str
    contestant: str
    setting: str
    recall: float
    seconds: float


class Verdict(NamedTuple):
    """Our time against the best peer's at a recall level; None where a side never gets there."""

    level: float
    ours: float | None
    peer: str | None
    peers: float | None
    exact: float

    @property
    def ratio(self) -> float | None:
        """Our time divided by the best peer's: below 1 we are ahead."""
        return None if self.ours is None or self.peers is None else self.ours / self.peers

    @property
    def times_exact(self) -> float | None:
        """How many times faster than the exact scan we are."""
        return None if self.ours is None else self.exact / self.ours


def envelope(points: Iterable[Point]) -> list[Point]:
    """Return the points that no other beats in both recall and time, by rising time."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.seconds, -point.recall)):
        if not best or point.recall > best[-1].recall:
            best.append(point)
    return best


def seconds_at(points: Iterable[Point], level: float) -> float | None:
    """Return the least time for a mean recall of `level`, or None if no setting has it.

    Between two settings lies a line: that is what using one for some queries and the other for the rest costs. So a
    coarse grid is no disadvantage.
    """
    best = envelope(points)
    if not best or best[-1].recall < level:
        return None
    reached = [point for point in best if point.recall >= level]
    below = [point for point in best if point.recall < level]
    lines = [
        low.seconds + (high.seconds - low.seconds) * (level - low.recall) / (high.recall - low.recall)
        for low in below
        for high in reached
    ]
    return min([reached[0].seconds, *lines])


def verdicts(
    points: Sequence[Point], ours: str, exact: str, aside: Collection[str] = (), levels: Sequence[float] = LEVELS
) -> list[Verdict]:
    """Return for each level our time and that of the fastest peer: not the exact scan, nor a family set aside."""
    (exact_seconds,) = (point.seconds for point in points if point.family == exact)
    families = {name: [point for point in points if point.family == name] for name in {p.family for p in points}}
    answer = []
    for level in levels:
        times = {name: seconds_at(own, level) for name, own in families.items() if name not in {ours, exact, *aside}}
        there = {name: seconds for name, seconds in times.items() if seconds is not None}
        best = min(there, key=there.__getitem__, default=None)
        own = seconds_at(families.get(ours, []), level)
        answer.append(Verdict(level, own, best, there.get(best) if best else None, exact_seconds))
    return answer


def promising(points: Sequence[Point], slack: float = 1.3, margin: float = 0.01) -> list[Point]:
    """Return the points that may be on the envelope once they are measured well.

    Dropped is what another point beats clearly: `slack` times as fast and more recall by `margin`, or as fast as that
    twice over and no less recall.
    """
    best = envelope(points)
    return [
        point
        for point in points
        if not any(
            (other.seconds * slack < point.seconds and other.recall > point.recall + margin)
            or (other.seconds * slack * slack < point.seconds and other.recall >= point.recall)
            for other in best
        )
    ]
