"""What is learned when an index is built.

    directions.py    the axes along which items are sorted
    sorting.py       the items' lists along them
    graph.py         which items lead to which, and the compressed rows
    remembered.py    the best items of queries that are known before they are asked
    guides.py        whether walks under a filter go on from what is not eligible
    selectivity.py   what a budget finds where a filter leaves a share of the items
    trial.py         configurations compared on a sample of queries
    choice.py        which configuration serves the sample best
    calibration.py   what a budget buys and costs with it

Nothing here imports the index: trial.py says what it needs of one.
"""
