"""The model on disk: one immutable directory, memory-mapped by any number of processes.

manifest.py   model.json: the arrays by name, and free info
storage.py    named arrays in a directory: written atomically, mapped, verified
texts.py      many short texts in two arrays
ids.py        external ids: from text to position and back
opening.py    Bundle: the parts of a model, checked against each other
writing.py    write_bundle: the parts of a model, packed
versions.py   a folder of bundles, and which of them is current
version_names.py   what a version may be called
files.py      opening ordinary files only
"""
