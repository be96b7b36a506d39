"""Faults of every kind against the real service, from outside: nothing freezes, goes stale or is lost.

    python -m loadtests.chaos                     the short form, about four minutes
    python -m loadtests.chaos --only swaps        one part
    python -m loadtests.chaos --long              1,000,000 requests, 10,000 bundles, an hour of soak

    fuzzing.py    HTTP as nobody should send it           disk.py      full disks, files cut short
    short_cut.py  the short cut against the plain way     clients.py   slow, stuck and far too many clients
    bodies.py     large and senseless JSON                overload.py  three times as much as it can do
    bundles.py    models damaged in every way             limits.py    keys with a limit
    kills.py      SIGKILL at the worst moment             swaps.py     models that come, go and come back
    admin.py      who may swap a model                    soak.py      load and swaps for a long time

The service is a black box here: started by `budgetrec`, spoken to over sockets on loopback. trial.py keeps what was
done and found, serving.py starts the service, wire.py speaks HTTP by hand, oracle.py knows the right answers,
probe.py asks for its health all the while.
"""
