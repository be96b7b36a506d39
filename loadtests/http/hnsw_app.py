"""The peer: recommendations as most people would write them, FastAPI around hnswlib.

    python -m loadtests.http.hnsw_app PORT BUNDLE INDEX EF

Written to be fast without being clever: vectors, seen items and ids are in memory, the search runs in the event
loop, the answer is dumped with orjson and returned as a Response. It has no budgets, limits, metrics or swaps.
"""

from __future__ import annotations

import sys
from typing import Annotated

import hnswlib
import orjson
import uvicorn
from fastapi import FastAPI, HTTPException, Query, Response

from greedy_core import Bundle


def create_app(bundle: Bundle, index: hnswlib.Index) -> FastAPI:
    """Return the application over a built index with `ef` set."""
    app = FastAPI()
    vectors = {bundle.user_id(position): bundle.user_vector(position) for position in range(bundle.n_users)}
    seen = {bundle.user_id(position): set(bundle.seen_items(position).tolist()) for position in range(bundle.n_users)}
    names = bundle.item_ids(range(bundle.n_items))
    titles = [bundle.title(position) for position in range(bundle.n_items)] if bundle.has_titles else None

    @app.get("/recommend")
    async def recommend(user_id: str, top_k: Annotated[int, Query(ge=1, le=1000)] = 10) -> Response:
        vector = vectors.get(user_id)
        if vector is None:
            raise HTTPException(404, "unknown user")
        known = seen[user_id]
        labels, distances = index.knn_query(vector, k=min(top_k + len(known), len(names)), num_threads=1)
        items = []
        for label, distance in zip(labels[0].tolist(), distances[0].tolist(), strict=True):
            if label not in known:
                item = {"item_id": names[label], "score": 1 - distance}
                if titles is not None and titles[label]:
                    item["title"] = titles[label]
                items.append(item)
        return Response(orjson.dumps({"user_id": user_id, "items": items[:top_k]}), media_type="application/json")

    return app


if __name__ == "__main__":
    port, path, index_path, ef = sys.argv[1:]
    opened = Bundle.open(path)
    graph = hnswlib.Index(space="ip", dim=opened.n_dims)
    graph.load_index(index_path)
    graph.set_ef(int(ef))
    uvicorn.run(
        create_app(opened, graph),
        port=int(port),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
