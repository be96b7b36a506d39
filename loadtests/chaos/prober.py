"""The probing process of probe.py: asks for /health/live every few milliseconds until standard input ends.

    python -m loadtests.chaos.prober PORT [fresh]

A line per probe: when it began (seconds on the monotonic clock, which all processes share), milliseconds that
the answer took, milliseconds that this process itself woke up too late just before (the machine's own delay, to
be told from the service's), and the status, 0 for none. It imports nearly nothing, so that it begins at once.
"""

from __future__ import annotations

import sys
import time
from select import select

from loadtests.chaos.wire import BrokenAnswerError, Wire, request

PERIOD = 0.01
# An answer that takes longer than this is not waited for.
PATIENCE = 12.0


def main() -> None:
    """Probe until standard input ends."""
    port, fresh = int(sys.argv[1]), "fresh" in sys.argv[2:]
    wire: Wire | None = None
    late = 0.0
    while True:
        began = time.monotonic()
        status = 0
        try:
            if wire is None:
                wire = Wire(port, timeout=PATIENCE)
            wire.send(request("/health/live"))
            answer = wire.final()
            status = answer.status if answer else 0
        except (OSError, BrokenAnswerError):
            pass
        took = time.monotonic() - began
        if wire is not None and (fresh or status != 200):
            wire.close()
            wire = None
        print(f"{began:.6f} {took * 1e3:.3f} {late * 1e3:.3f} {status}", flush=True)
        due = time.monotonic() + PERIOD
        if select([sys.stdin], [], [], PERIOD)[0]:
            break
        late = max(0.0, time.monotonic() - due)


if __name__ == "__main__":
    main()
