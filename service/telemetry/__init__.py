"""What the service says about itself: metric families, the shared rows they are counted in, Prometheus' text.

families    every metric with all its label values, declared in one place
rows        a row of numbers for each worker, in memory that all of them share
metrics     the writing side: nobody else writes a row
exposition  the reading side: the rows of all workers, added up, as Prometheus' text
recall_monitor  re-runs a sample of live requests exactly, and counts what was missed
"""
