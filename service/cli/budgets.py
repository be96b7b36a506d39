"""What a recall costs by a model's own curve, for commands that spend it."""

from greedy_core import Bundle, CalibrationError, InvalidQueryError
from service.cli.console import note
from service.cli.places import calibration_of


def bought(model: Bundle, recall: float, *, exclude_seen: bool, required: bool = True) -> int | None:
    """Return the budget that buys a recall for users; None where a model cannot say, and that is no error."""
    curve = calibration_of(model)
    if curve is None:
        if required:
            raise InvalidQueryError(f"{model.path} has no calibration to turn a recall into a budget; give --budget.")
        return None
    # What a model remembers of its users is the best of what they have not seen.
    curve = curve if exclude_seen or not model.has_seen else curve.for_vectors
    try:
        return curve.budget_for_recall(recall)
    except CalibrationError:
        note("No calibrated budget reaches this recall against exact search: all items are scored.")
        return model.n_items


def reachable(model: Bundle, budget: int) -> int:
    """Lower a budget that the index cannot spend: past its lists, but short of scoring every item."""
    if model.index.max_budget < budget < model.n_items:
        note(f"The budget is lowered to {model.index.max_budget:,}, the largest that the model's lists serve.")
        return model.index.max_budget
    return budget
