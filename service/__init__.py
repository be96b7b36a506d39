"""The process around the library: HTTP in, receipts out.

    server    one supervisor, N workers, one listening socket
      protocol, lane, hot   GET /recommend ahead of ASGI        ─┐
      shell     every other request: ids, keys, limits, errors  ─┤
        routes    FastAPI: validation and documentation          │
                                                                 ▼
    service   the parts of a worker ──► engine: Ask ─► budget ─► search ─► receipt
                                          │   admission, cost: what a request gets
                                          │   model, models, rundir: what it is answered from
                                          └── metrics, cells, monitor, logs: what is said about it

It knows nothing of algorithms; greedy_core knows nothing of HTTP.
"""
