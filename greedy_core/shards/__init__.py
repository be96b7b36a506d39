"""Shards: one set of items in several ordinary bundles, searched as one.

    items ──► dealing: by length, so that no shard has all the long ones ──► places: which item lies where
                                                                               │
    budget ──► shares: how much of it each shard gets ──► shards, each on its own ──► merging ──► one answer

index.py puts these together as an index like any other. building.py makes the bundles and what is kept once.
"""
