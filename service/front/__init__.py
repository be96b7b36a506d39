"""The front: connections, and the short cut for the usual question.

    bytes ─► connection ─► head: a plain GET /recommend? ──► line ──► answering ──► bytes
                              │ no
                              └──► uvicorn ──► http.outer ──► FastAPI

An ASGI request costs a scope, a task, two coroutines and several callbacks, together more than a search. So a
connection reads the head of each request itself, answers the plain question, and hands every other request to
uvicorn's protocol, one at a time. The setting `lane` turns the short cut off; FastAPI's route then answers the same
question. `make httpbench` measures what it is worth. The connection also bounds what uvicorn does not: the size of a
head, slow callers, and the number of connections.
"""
