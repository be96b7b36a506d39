"""What users import does not change by accident."""

import greedy_core


def test_public_names():
    assert sorted(greedy_core.__all__) == [
        "Bundle",
        "CalibrationError",
        "CorruptModelError",
        "ExactIndex",
        "FormatVersionError",
        "GreedyCoreError",
        "GreedyIndex",
        "InvalidBudgetError",
        "InvalidEmbeddingsError",
        "InvalidQueryError",
        "NotAModelError",
        "SearchResult",
        "StorageError",
        "UnsupportedKernelError",
    ]
    for name in greedy_core.__all__:
        assert hasattr(greedy_core, name)
