"""From a table of who met what to vectors, and how good they are on what people did later.

file ──► events ──► interactions ──┬──► models ─────────────────────────────────────► the served vectors
         (ids numbered,            └──► split ──► models ──► index ──► measuring ──► quality
          batch by batch)                        (on the earlier part)

columns.py        which column of a file is what
events.py         Events: one row per event, and the gate that its columns pass
loading.py        load_events: .parquet, .csv, .csv.gz, .npz
tables.py         what of these needs pyarrow
encoding.py       ids of any kind to numbers without gaps, batch by batch
interactions.py   events without rare users and items, as a sparse matrix
split.py          what is held out: the last part in time, or one item of each user
models.py         ALS, BPR and logistic matrix factorisation, by `implicit`
measuring.py      hit rate, recall, NDCG, coverage; what each budget keeps
tuning.py         a small grid of settings, chosen by held-out NDCG
training.py       train: all of it

Needs the extra `train` (implicit, SciPy, pyarrow), which is loaded when it is used.
"""

from greedy_core.training.events import Events
from greedy_core.training.interactions import Interactions
from greedy_core.training.loading import load_events
from greedy_core.training.models import MODEL_KINDS, ModelSettings
from greedy_core.training.training import Trained, train

__all__ = [
    "MODEL_KINDS",
    "Events",
    "Interactions",
    "ModelSettings",
    "Trained",
    "load_events",
    "train",
]
