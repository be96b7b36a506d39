"""Shards and the cluster: what they cost and what they survive, measured on this machine with a real Ray."""
