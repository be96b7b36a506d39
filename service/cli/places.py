"""Paths that a user gives: a bundle, or a folder of versions whose current one is meant."""

from pathlib import Path
from typing import Annotated

import typer

from greedy_core import Bundle, Calibration, CalibrationError, NotAModelError, VersionsFolder, is_bundle

Place = Annotated[
    Path, typer.Argument(help="A bundle, or a models folder, of which the current version is meant.", show_default=True)
]
Models = Annotated[Path, typer.Option("--models", help="The models folder.", show_default=True)]


def bundle_path(place: Path) -> Path:
    """Return the path itself if it is a bundle, else the current version in it."""
    if is_bundle(place) or not place.is_dir():
        return place
    folder = VersionsFolder(place)
    current = folder.current()
    if current is not None:
        return current
    if folder.versions():
        raise NotAModelError(f"{place} has no current version; run: budgetrec promote VERSION --models {place}.")
    raise NotAModelError(f"{place} holds no model; make one with `budgetrec build` or `budgetrec demo`.")


def open_bundle(place: Path) -> Bundle:
    """Open the bundle that is meant."""
    return Bundle.open(bundle_path(place))


def calibration_of(model: Bundle) -> Calibration | None:
    """Return the curves of a bundle; what cannot be used counts as none."""
    try:
        return Calibration.from_dict(model.calibration) if model.calibration else None
    except CalibrationError:
        return None
