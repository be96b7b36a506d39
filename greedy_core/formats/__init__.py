"""Reading files: vectors, ids and titles, and what users have seen.

vectors.py   load_embeddings: .npy, .npz, .parquet, .safetensors
texts.py     load_texts: .txt, .json, .npy, .parquet
seen.py      load_seen: .npz
parquet.py   what of these needs pyarrow, an optional extra
names.py     FILE:KEY, and the names inside of a file
"""

from greedy_core.formats.seen import Seen, load_seen
from greedy_core.formats.texts import load_texts
from greedy_core.formats.vectors import Embeddings, load_embeddings

__all__ = ["Embeddings", "Seen", "load_embeddings", "load_seen", "load_texts"]
