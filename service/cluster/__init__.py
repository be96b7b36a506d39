"""The service on many machines: a Ray Serve application over a bundle whose index lies in shards.

    HTTP ──► Serve's proxy ──► ingress: the same application as on one machine ──┬──► shard-0 (replicas)
                               filters, fold-in, rules, the receipt              ├──► shard-1
                               one budget ──► shares ──► scatter, gather, merge ─┴──► ...

    serve run service.cluster:app models=/models

Ray places the replicas, watches their health, restarts and scales them. What is written here is what only we know: how
a budget is split and answers are merged (greedy_core/shards/), and that a request pins one version of the model.
"""

from service.cluster.application import app

__all__ = ["app"]
