"""Memory that the supervisor makes and all workers share: metrics, agreement on a model, key usage, scenarios.

It is anonymous (`memfd`) and disappears with the last process, so that a killed service leaves nothing behind and a
full disk does no harm. With the setting `run_dir` the same bytes are files in that folder, for those who want to look
at them; their blocks are allocated beforehand, because a write into a hole of a file on a full disk kills the process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from service.http.key_limits import usage_bytes
from service.http.keys import Keyring
from service.models.agreement import AGREEMENT_BYTES
from service.models.scenarios import SCENARIOS_BYTES, publish
from service.telemetry.metrics import shared_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from service.settings import Settings


class SharedMemory(NamedTuple):
    """Descriptors that are inherited across a fork."""

    metrics: int
    key_usage: int
    agreements: tuple[int, ...]  # one for each model
    scenarios: int

    @classmethod
    def make(cls, settings: Settings, *, fresh: bool = True) -> SharedMemory:
        """Make the memory of a service. `fresh` forgets what an earlier run left in `run_dir`."""
        names = tuple(settings.folders)
        usage = usage_bytes(settings.workers, len(Keyring.from_settings(settings).keys))

        def make(name: str, size: int) -> int:
            return _make(name, size, settings.run_dir, fresh=fresh)

        memory = cls(
            make("metrics", shared_bytes(settings.workers, names, tuple(settings.first_scenarios))),
            make("key_usage", usage),
            tuple(make(f"agreement-{name}", AGREEMENT_BYTES) for name in names),
            make("scenarios", SCENARIOS_BYTES),
        )
        if fresh:
            publish(memory.scenarios, settings.first_scenarios)
        return memory

    def close(self) -> None:
        """Close the descriptors; what is mapped stays mapped."""
        for descriptor in (self.metrics, self.key_usage, *self.agreements, self.scenarios):
            os.close(descriptor)


def _make(name: str, size: int, folder: Path | None, *, fresh: bool) -> int:
    if folder is None:
        descriptor = os.memfd_create(f"budgetrec-{name}", os.MFD_CLOEXEC)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if fresh:
            os.ftruncate(descriptor, 0)
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        os.close(descriptor)
        where = "memory" if folder is None else str(folder)
        raise OSError(
            error.errno, f"no room for {size} bytes of shared {name} in {where}: {error.strerror}; make room"
        ) from None
    return descriptor
