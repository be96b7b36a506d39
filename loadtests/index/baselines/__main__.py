"""Compile the compared methods ahead of their first use: `python -m loadtests.index.baselines`."""

from loadtests.index.baselines.build import compiled

print(f"The compared methods are built: {compiled().__file__}")
