"""What a model foretells of real behaviour, for people: by `train` and `inspect`."""

from greedy_core import QUALITY_MEANINGS, Quality
from service.cli.console import say, table

_FEW_USERS = 50
_NAMES = {
    "hit_rate_at_10": "hit rate@10",
    "recall_at_10": "recall@10 of real behaviour",
    "ndcg_at_10": "NDCG@10",
    "coverage": "coverage",
}


def show_quality(quality: Quality) -> None:
    """Print the model beside the popular items, what each number means, and what each budget keeps."""
    say(f"On real behaviour: {quality.split}; {quality.n_users:,} users.")
    if quality.n_users < _FEW_USERS:
        say("So few users say little: chance alone can turn the order of two models around.")
    rows = [
        [
            shown,
            f"{getattr(quality.exact, name):.4f}"
            + (f" ± {quality.standard_error:.4f}" if name == "ndcg_at_10" else ""),
            f"{getattr(quality.popular, name):.4f}",
            QUALITY_MEANINGS[name],
        ]
        for name, shown in _NAMES.items()
    ]
    heads = ["", "this model", "popular items", "what it means"]
    table(heads, rows, right=heads[1:3])
    heads = ["budget", "NDCG@10", "share kept"]
    rows = [[f"{point.budget:,}", f"{point.ndcg_at_10:.4f}", f"{point.share:.1%}"] for point in quality.points]
    table(heads, rows, right=heads)
    say(f"share kept: {QUALITY_MEANINGS['share']}.")
    say("Measured on a model that was trained without what was held out; the model in the bundle was trained on all.")
