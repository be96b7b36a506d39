"""The versions of a models folder, for people to look at: when each was built and what it is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greedy_core import (
    MANIFEST_NAME,
    Calibration,
    GreedyCoreError,
    Quality,
    VersionsFolder,
    is_bundle,
    read_manifest,
)

if TYPE_CHECKING:
    from pathlib import Path

# So many versions are described, those built last; a folder has rarely more.
MOST_DESCRIBED = 20
# A version whose manifest is larger is named and no more: reading it would hold up the process.
LARGEST_MANIFEST = 1 << 20


class VersionList:
    """Describes versions, each once: they never change. Used by one thread at a time."""

    def __init__(self, path: Path, budget: int) -> None:
        """Remember where the versions are, and at which budget their recall is of interest."""
        self._folder = VersionsFolder(path)
        self._budget = budget
        self._described: dict[tuple[str, int], dict[str, Any]] = {}

    def describe(self) -> tuple[list[dict[str, Any]], int]:
        """Return the newest versions, the newest first, and how many there are. Raises StorageError."""
        folder = self._folder
        if is_bundle(folder.path):
            return [self._row(folder.path) | {"is_current": True, "is_previous": False}], 1
        names, current, previous = folder.versions(), folder.current_version(), folder.previous_version()
        # By name first: reading all manifests of a large folder would take long. Names usually are dates or numbers.
        newest = list(reversed(names))[:MOST_DESCRIBED]
        newest += [name for name in (current, previous) if name in names and name not in newest]
        rows = [
            self._row(folder.path / name) | {"is_current": name == current, "is_previous": name == previous}
            for name in newest
        ]
        rows.sort(key=lambda row: row["built_at"] or "", reverse=True)
        return rows, len(names)

    def _row(self, path: Path) -> dict[str, Any]:
        manifest = path / MANIFEST_NAME
        unknown = {"version": path.name, "built_at": None, "n_items": None, "recall_at_10": None, "ndcg_at_10": None}
        try:
            status = manifest.stat()
            key = (path.name, status.st_mtime_ns)
            if key not in self._described:
                if len(self._described) >= 4 * MOST_DESCRIBED:
                    self._described.clear()
                is_small = status.st_size <= LARGEST_MANIFEST
                self._described[key] = unknown | (self._read(path) if is_small else {})
            return self._described[key]
        except (GreedyCoreError, OSError):
            # Deleted meanwhile, or damaged: it is there by name.
            return unknown

    def _read(self, path: Path) -> dict[str, Any]:
        info = read_manifest(path).info
        calibration, quality = info.get("calibration"), info.get("quality")
        return {
            "version": str(info.get("version", path.name)),
            "built_at": str(info.get("built_at", "")) or None,
            "n_items": info.get("n_items"),
            "recall_at_10": Calibration.from_dict(calibration).recall_at(self._budget) if calibration else None,
            "ndcg_at_10": Quality.from_dict(quality).exact.ndcg_at_10 if quality else None,
        }
