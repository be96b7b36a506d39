"""The process around the library: HTTP in, recommendations and their receipts out.

    cli        commands
    process    one supervisor, N workers, one listening socket
    front      connections; the short cut for the usual question
    http       the calls: parameters, bodies, keys, errors, documentation
    answering  question ─► one budget ─► search ─► answer bytes
    models     what is answered from: loading, swapping, what the workers agreed on
    telemetry  what is said about it: metrics, the recall monitor
    worker     the parts of one worker, put together

Imports point downwards. The service knows nothing of algorithms; greedy_core knows nothing of HTTP.
"""
