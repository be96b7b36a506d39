"""What users import does not change by accident."""

import subprocess
import sys

import greedy_core


def test_public_names():
    assert sorted(greedy_core.__all__) == [
        "Bundle",
        "Calibration",
        "CalibrationError",
        "CalibrationPoint",
        "CorruptModelError",
        "DIRECTION_KINDS",
        "Embeddings",
        "ExactIndex",
        "FormatVersionError",
        "GreedyCoreError",
        "GreedyIndex",
        "InvalidBudgetError",
        "InvalidEmbeddingsError",
        "InvalidQueryError",
        "MANIFEST_NAME",
        "Manifest",
        "NotAModelError",
        "Screening",
        "SearchResult",
        "Seen",
        "StorageError",
        "StoredFile",
        "UnsupportedKernelError",
        "VersionsFolder",
        "as_query",
        "build_bundle",
        "calibrate",
        "check_version_name",
        "is_bundle",
        "load_embeddings",
        "load_seen",
        "load_texts",
        "read_manifest",
        "verify_files",
        "write_bundle",
    ]
    for name in greedy_core.__all__:
        assert hasattr(greedy_core, name)


def test_importing_the_library_draws_no_progress_bars():
    script = (
        "import greedy_core, sys; print([name for name in ('rich', 'pyarrow', 'safetensors') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
