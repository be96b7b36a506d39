"""HTTP: what may be called, by whom, with which parameters, and what the answers look like.

calls        one table of all calls: path, name, who may call
outer        the outer ASGI layer: ids, keys, limits, errors, counts
app          FastAPI with the calls in routes/, openapi its documentation
questions    reads a question, whatever brought it: query string, headers, body
parameters   query strings; bodies: JSON; schemas: the shapes in and out
pages        /docs and /redoc, from files in static/
keys         who is calling; key_limits: how much a caller may spend
"""
