"""What is learned when an index is built.

    directions.py      the axes along which items are sorted
    centres.py         directions in which many queries point
    sorting.py         the items' lists along all of them
    decomposition.py   what a known query is made of
    trial.py           configurations compared on a sample of queries
    choice.py          which configuration serves the sample best
    calibration.py     what a budget buys and costs with it

Nothing here imports the index: trial.py says what it needs of one.
"""
