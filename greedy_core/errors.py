"""Everything that greedy_core raises.

    GreedyCoreError
    ├── InvalidEmbeddingsError   items or users that cannot be indexed          (ValueError)
    ├── InvalidQueryError        a query, top_k or exclude that makes no sense  (ValueError)
    ├── InvalidBudgetError       a budget that is no budget, or out of reach    (ValueError)
    ├── CalibrationError         a question that the calibration cannot answer  (LookupError)
    ├── UnsupportedKernelError   an instruction set this CPU does not have      (RuntimeError)
    └── StorageError             files that cannot be written or used           (OSError)
        ├── NotAModelError         the path holds no model
        ├── FormatVersionError     a format this release does not read
        └── CorruptModelError      files that are cut short, altered or inconsistent

A message is one sentence: what is wrong, what was expected, what to do.
"""

import contextlib


class GreedyCoreError(Exception):
    """The root: `except GreedyCoreError` catches all that the library raises on purpose."""


class InvalidEmbeddingsError(GreedyCoreError, ValueError):
    """Items or users that cannot be indexed."""


class InvalidQueryError(GreedyCoreError, ValueError):
    """A query vector, `top_k` or `exclude` that makes no sense."""


class InvalidBudgetError(GreedyCoreError, ValueError):
    """A budget that is not a positive whole number, or that the index cannot spend."""


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
