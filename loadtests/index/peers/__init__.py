"""`make peers`: recall@10 against time per query, our index beside other libraries, in one process and one run.

    contestants   what takes part: a name, what its build cost, and a grid of settings to search with; ours
    libraries     the peers, one class each, built once and kept in .cache/peers
    filters       the same where a filter leaves a share of the items (--filters)
    race          rough times and recall of the whole grid, then the promising settings again, side by side
    frontier      the best envelope of each family, time at a recall level, the verdict
    report        table, JSON, plot, and the tables of RESULTS.md

Everything runs on one thread, one query at a time, through each library's own Python call.
"""
