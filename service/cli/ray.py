"""Whether Ray is here, for the commands that can use it."""

from importlib.util import find_spec

from greedy_core import StorageError


def check_ray(option: str) -> None:
    """Refuse a command that needs Ray where it is not installed, before any work is done."""
    if find_spec("ray") is None:
        raise StorageError(
            f"{option} needs Ray, which is not installed; in a checkout of budgetrec, run: pip install '.[ray]'."
        )
