"""The version, from the installed package: pyproject.toml is the one place where it is written."""

from importlib.metadata import version

VERSION = version("budgetrec")
