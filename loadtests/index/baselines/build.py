"""Compile the compared methods: `python -m loadtests.index.baselines`.

They are no part of the wheel. The module is built on first use into `.cache/baselines`, under a name that
holds a digest of its sources, flags and interpreter: a stale one is never loaded, and processes that build
at the same time wait for each other.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CORE = ROOT / "greedy_core" / "native"
CACHE = ROOT / ".cache" / "baselines"
NAME = "loadtests.index.baselines._methods"
# The search core's own flags: the methods are compared on equal terms.
COMPILE_ARGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra"]
COMPILE_ARGS += ["-Wno-maybe-uninitialized"]  # about GCC's own AVX-512 header


def sources() -> list[Path]:
    """Everything whose change asks for a new build."""
    core = [CORE / "inner_product.h", CORE / "inner_product.cpp"]
    return [HERE / "_methods.pyx", *sorted((HERE / "native").glob("*.h")), *core]


def digest() -> str:
    """Name the build that the present sources would give."""
    seen = hashlib.blake2b(digest_size=8)
    for path in sources():
        seen.update(path.read_bytes())
    seen.update(repr((COMPILE_ARGS, sysconfig.get_config_var("SOABI"))).encode())
    return seen.hexdigest()


@functools.cache
def compiled() -> Any:
    """Return the compiled module, building it first if need be."""
    target = CACHE / digest() / f"_methods{sysconfig.get_config_var('EXT_SUFFIX')}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build(target)
    spec = importlib.util.spec_from_file_location(NAME, target)
    if spec is None or spec.loader is None:
        raise ImportError(f"{target} cannot be loaded; delete it and run python -m loadtests.index.baselines.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
    return module


def _build(target: Path) -> None:
    import numpy as np  # noqa: PLC0415 - only a build needs these
    from Cython.Build import cythonize  # noqa: PLC0415
    from setuptools import Distribution, Extension  # noqa: PLC0415

    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        # Built from a copy, so that neither the generated source nor objects land in the tree.
        source = Path(scratch) / "_methods.pyx"
        shutil.copyfile(HERE / "_methods.pyx", source)
        extension = Extension(
            "_methods",
            sources=[str(source), str(CORE / "inner_product.cpp")],
            include_dirs=[str(HERE / "native"), str(CORE), np.get_include()],
            language="c++",
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
            extra_compile_args=COMPILE_ARGS,
        )
        directives = {"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True}
        modules = cythonize([extension], compiler_directives=directives, quiet=True, force=True)
        command = Distribution({"ext_modules": modules}).get_command_obj("build_ext")
        command.build_lib = command.build_temp = scratch
        command.ensure_finalized()
        command.run()
        target.parent.mkdir(exist_ok=True)
        shutil.move(Path(scratch) / target.name, target)
