"""How many connections a process has descriptors for."""

from __future__ import annotations

import resource

# For models, sockets, logs and whatever else is open.
FILES = 96


def room_for(connections: int) -> int:
    """Raise the soft limit as far as it may be raised, and return how many of these connections there is room for.

    Each may have another one beside it that is behind its last answer.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    soft = wanted if hard == resource.RLIM_INFINITY else max(soft, min(wanted, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(connections, (soft - FILES) // 2))
