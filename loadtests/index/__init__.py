"""The search measured: data sets, the benchmark, the peers, the paper's experiments."""
