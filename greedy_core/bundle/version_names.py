"""What a version may be called: the one place that says so."""

from __future__ import annotations

from greedy_core.errors import NotAModelError

CURRENT = "current"
PREVIOUS = "previous"
HISTORY = "history.json"
# A folder of versions uses these itself.
RESERVED = frozenset({CURRENT, PREVIOUS, HISTORY})

# A file's name has at most 255 bytes, and a version is written under a longer name first.
_MAX_BYTES = 200


def check_version_name(name: str) -> None:
    """Raise NotAModelError, with the reason, for a name that no version can have.

    A name is the name of a directory, stands in command lines, answers and metrics, and is not one that a folder of
    versions uses itself.
    """
    reason = _what_is_wrong(name)
    if reason is not None:
        raise NotAModelError(f"{name!r} is no name of a version: {reason}.")


def _what_is_wrong(name: object) -> str | None:
    if not isinstance(name, str) or not name:
        return "it must be text and not empty"
    if name in RESERVED:
        return f"{', '.join(sorted(RESERVED))} have a meaning of their own"
    if name.startswith((".", "-")):
        return "it must not begin with a dot or a dash"
    if "/" in name or not name.isprintable() or name != name.strip():
        return "it must not have a slash, control characters or space at its ends"
    try:
        too_long = len(name.encode()) > _MAX_BYTES
    except UnicodeEncodeError:
        return "it is not valid text"
    return f"it must have at most {_MAX_BYTES} bytes" if too_long else None
