"""Measurements: the index against its peers and the paper, and the service under load."""
