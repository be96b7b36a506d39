"""Reading files: vectors, ids and titles, attributes, and what users have seen.

vectors.py   load_embeddings: .npy, .npz, .parquet, .safetensors, .pt, .csv
texts.py     load_texts: .txt, .json, .npy, .parquet, .csv
seen.py      load_seen: .npz
separated.py   the first line of a text table
attributes.py  load_attributes: .parquet, .csv, .tsv, .jsonl, .ndjson, .gz
parquet.py, arrow_attributes.py     what of these needs pyarrow, an optional extra
names.py     FILE:KEY, and the names inside of a file
"""

from greedy_core.formats.attributes import ID_COLUMNS, LoadedAttributes, load_attributes
from greedy_core.formats.seen import Seen, load_seen
from greedy_core.formats.texts import load_texts
from greedy_core.formats.vectors import Embeddings, load_embeddings

__all__ = [
    "ID_COLUMNS",
    "Embeddings",
    "LoadedAttributes",
    "Seen",
    "load_attributes",
    "load_embeddings",
    "load_seen",
    "load_texts",
]
