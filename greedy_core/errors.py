"""Everything that greedy_core raises.

    GreedyCoreError
    ├── InvalidEmbeddingsError   items or users that cannot be indexed          (ValueError)
    ├── InvalidEventsError       interactions that no model can be made of      (ValueError)
    ├── InvalidQueryError        a query, top_k or exclude that makes no sense  (ValueError)
    ├── InvalidBudgetError       a budget that is no budget, or out of reach    (ValueError)
    ├── InvalidAttributesError   attributes of items that cannot be stored      (ValueError)
    ├── InvalidFilterError       a filter that cannot be read or applied        (ValueError)
    ├── InvalidRulesError        rules of a page that make no sense             (ValueError)
    ├── InvalidScenariosError    a file of scenarios that cannot be used        (ValueError)
    ├── CalibrationError         a question that the calibration cannot answer  (LookupError)
    ├── UnsupportedKernelError   an instruction set this CPU does not have      (RuntimeError)
    └── StorageError             files that cannot be written or used           (OSError)
        ├── NotAModelError         the path holds no model
        ├── FormatVersionError     a format this release does not read
        └── CorruptModelError      files that are cut short, altered or inconsistent

A message is one sentence: what is wrong, what was expected, what to do.
"""

import contextlib
from collections.abc import Sequence


class GreedyCoreError(Exception):
    """The root: `except GreedyCoreError` catches all that the library raises on purpose."""


class InvalidEmbeddingsError(GreedyCoreError, ValueError):
    """Items or users that cannot be indexed."""


class InvalidEventsError(GreedyCoreError, ValueError):
    """Interactions that no model can be made of."""


class InvalidQueryError(GreedyCoreError, ValueError):
    """A query vector, `top_k` or `exclude` that makes no sense."""


class InvalidBudgetError(GreedyCoreError, ValueError):
    """A budget that is not a positive whole number, or that the index cannot spend."""


class InvalidAttributesError(GreedyCoreError, ValueError):
    """Attributes of items that cannot be stored, or that are not there."""


class InvalidFilterError(GreedyCoreError, ValueError):
    """A filter that cannot be read, or that does not fit the model.

    text   the filter
    place  the number of characters before the place where it is wrong
    """

    def __init__(self, message: str, text: str = "", place: int = 0) -> None:
        super().__init__(message)
        self.text = text
        self.place = place


class InvalidRulesError(GreedyCoreError, ValueError):
    """Rules or scenarios that make no sense, or that do not fit the model.

    rule     what it is about: at_most, diversity, boost, pin, fallback
    problem  what is wrong with it, after its name
    takes    what it takes
    """

    def __init__(self, rule: str, problem: str, takes: str) -> None:
        super().__init__(f"{rule} {problem}; it takes {takes}.")
        self.rule = rule
        self.problem = problem
        self.takes = takes


class InvalidScenariosError(GreedyCoreError, ValueError):
    """Scenarios that cannot be used; `faults` has a sentence for each fault."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class CalibrationError(GreedyCoreError, LookupError):
    """A question that the calibration cannot answer."""


class UnsupportedKernelError(GreedyCoreError, RuntimeError):
    """An instruction set that does not exist or that this CPU does not have."""


class StorageError(GreedyCoreError, OSError):
    """Files that cannot be written or used."""


class NotAModelError(StorageError):
    """The path holds no model."""


class FormatVersionError(StorageError):
    """The model is in a format that this release does not read."""


class CorruptModelError(StorageError):
    """The model's files are cut short, altered or do not fit together."""


def first_line(reason: BaseException) -> str:
    """Return the first line of another library's message, to be quoted inside a sentence."""
    with contextlib.suppress(IndexError):
        return str(reason).splitlines()[0].rstrip(".")
    return type(reason).__name__
