"""What a build measured and chose, for people: by `build`, `train` and `inspect`."""

from greedy_core import Bundle, Calibration, CalibrationError
from service.cli.console import note, say, table
from service.models.default_budget import budget_towards
from service.settings import DEFAULT_RECALL

# Rounding the rows is worth a word below this.
_LEAST_ROWS_RECALL = 0.99
# Ways of screening that are shown beside the chosen one; the others are worse.
_SHOWN = 6


def show_choice(made: Bundle) -> None:
    """Print the ways of screening that were compared, the chosen first, and what decided; nothing if none were."""
    compared = made.index.compared
    if not compared:
        return
    recalls = [f"{recall:g}" for recall, _ in compared[0].budgets]
    heads = ["screening", "directions", *(f"budget for {recall}" for recall in recalls), "cost"]
    rows = [
        [
            way.screening,
            way.directions,
            *("scan" if budget is None else f"{budget:,}" for _, budget in way.budgets),
            f"{way.cost:,.0f}",
        ]
        for way in compared[:_SHOWN]
    ]
    table(heads, rows, right=heads[2:])
    say(
        f"Of {len(compared)} ways to screen the first was chosen: on vectors that it had not seen it reaches a "
        f"recall@10 against exact search of {', '.join(recalls[:-1])} and {recalls[-1]} at the least cost (the "
        "geometric mean of the four, in list entries, counted and not timed; scan: scoring all items costs no more)."
    )


def show_calibration(made: Bundle) -> None:
    """Print what each budget finds of an exact search's best and how sure that is, or that nobody measured it."""
    if not made.calibration:
        say("This bundle has no calibration: `target_recall` and /budgets will not be answered.")
        return
    try:
        calibration = Calibration.from_dict(made.calibration)
    except CalibrationError as reason:
        say(f"The calibration of this bundle cannot be used and counts as none: {reason}")
        return
    _show_curve(calibration)
    say(_sample(calibration))
    if calibration.vectors is not None:
        say("A vector from outside, about which nothing was worked out beforehand:")
        _show_curve(calibration.vectors)
        say(f"screening by {calibration.vectors.screening}")
    if made.index.precision != "float32":
        _show_rounding(made.index.precision, calibration.rows_recall)
    usual = budget_towards(DEFAULT_RECALL, made.index, calibration, top_k=10)
    reached = calibration.for_vectors.recall_at(usual)
    say(
        f"A question that names no budget gets {usual:,} products: "
        + (
            f"enough for a recall@10 against exact search of {DEFAULT_RECALL} for vectors from outside."
            if reached >= DEFAULT_RECALL
            else f"their recall@10 against exact search is {reached:.3f} for vectors from outside, and no measured "
            f"budget has {DEFAULT_RECALL}."
        )
    )


def _show_rounding(precision: str, recall: float) -> None:
    """Print what it costs that rows are rounded, with a warning where that is much."""
    say(
        f"Rows of {precision}: an exact search over them has a recall@10 of {recall:.4f} by the vectors that were "
        "given, which the curves have in them."
    )
    if recall < _LEAST_ROWS_RECALL:
        other = "float16 or float32" if precision == "bfloat16" else "float32"
        note(f"Beware: rounding the rows to {precision} costs recall that no budget buys back; take {other}.")


def _show_curve(calibration: Calibration) -> None:
    heads = ["budget", "recall@10 against exact search", "prec@5", "us per search", "best screening"]
    rows = [
        [
            f"{point.budget:,}",
            f"{point.recall_at_10:.4f} ± {point.standard_error:.4f}",
            f"{point.prec_at_5:.3f}",
            f"{point.seconds * 1e6:.1f}",
            point.best,
        ]
        for point in calibration.points
    ]
    table(heads, rows, right=heads[:-1])


def _sample(calibration: Calibration) -> str:
    """Say whom the curve was measured on."""
    n = f"{calibration.sample_size:,}"
    who = f"{n} held-out users" if calibration.held_out else f"{n} users, too few to hold any out"
    return f"measured on {who}, screening by {calibration.screening}; ± is one standard error"
