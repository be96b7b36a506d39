"""The methods that the paper compares Greedy-MIPS with, compiled, behind one small interface.

    from loadtests.index import baselines
    tree = baselines.PcaTree.build(items, depth=9)
    answer = tree.query(w, top_k=10)             # answer.ids, answer.candidates
    answers = tree.query_batch(queries, top_k=10)

| class           | paper, section 2 and 5      | knobs of build                | knobs of query      |
|-----------------|-----------------------------|-------------------------------|---------------------|
| `NaiveFullSort` | Naive-MIPS                  |                               |                     |
| `PcaTree`       | PCA-MIPS                    | depth, transform              | boost               |
| `Lsh`           | LSH-MIPS                    | bits (a), tables (b), transform | tables            |
| `Sample`        | Sample-MIPS                 |                               | samples, budget     |
| `Diamond`       | Diamond-MSIPS               |                               | samples, budget     |
| `KMeans`        | k-means MIPS                | clusters, transform           | probes              |
| `Dwedge`        | dWedge, later than the paper | max_samples                  | samples, budget     |

Layers, as in the search core: `native/*.h` holds the algorithms, `_methods.pyx` hands arrays to them, the
modules here validate, do the linear algebra of a build with NumPy, and own the arrays. Every query runs in
one thread of compiled code from its first instruction to its last, and ranks its candidates with the search
core's own inner product on padded float32 rows. `reference.py` says the same slowly, for the tests.

The service never imports this package and no wheel holds it; `build.py` compiles it on first use.
"""

from loadtests.index.baselines.dwedge import Dwedge
from loadtests.index.baselines.kmeans import KMeans
from loadtests.index.baselines.lsh import Lsh
from loadtests.index.baselines.method import Answer, Answers, Method, UnsuitableDataError
from loadtests.index.baselines.naive import NaiveFullSort
from loadtests.index.baselines.pca_tree import PcaTree
from loadtests.index.baselines.sampling import Diamond, Sample

__all__ = [
    "Answer",
    "Answers",
    "Diamond",
    "Dwedge",
    "KMeans",
    "Lsh",
    "Method",
    "NaiveFullSort",
    "PcaTree",
    "Sample",
    "UnsuitableDataError",
]
