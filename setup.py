"""The compiled extensions; everything else is in pyproject.toml.

GREEDY_CORE_CHECKED=1   build with bounds checks and native assertions
GREEDY_CORE_SANITIZE=1  build with AddressSanitizer and UndefinedBehaviorSanitizer (`make sanitize`)
"""

import os
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

checked = os.environ.get("GREEDY_CORE_CHECKED") == "1"
sanitize = os.environ.get("GREEDY_CORE_SANITIZE") == "1"

# Contraction is off so that a * b + c means the same on every machine; where a fused product is wanted it is written.
compile_args = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-pthread"]
compile_args += ["-Wall", "-Wextra", "-Wno-maybe-uninitialized"]  # the last is about GCC's own AVX-512 header
link_args = ["-pthread"]
macros = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION")]
if checked or sanitize:
    compile_args += ["-UNDEBUG", "-O1", "-g"]
if sanitize:
    compile_args += ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
    link_args += ["-fsanitize=address,undefined"]



def extension(name: str, *native: str) -> Extension:
    """Return greedy_core.<name> with the native sources it needs."""
    return Extension(
        f"greedy_core.{name}",
        sources=[f"greedy_core/{name}.pyx", *(f"greedy_core/native/{source}" for source in native)],
        depends=sorted(map(str, Path("greedy_core/native").glob("*.h"))),
        include_dirs=["greedy_core/native", np.get_include()],
        language="c++",
        define_macros=macros,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )


setup(
    ext_modules=cythonize(
        [extension("_kernel", "inner_product.cpp"), extension("_graph", "inner_product.cpp")],
        compiler_directives={
            "language_level": 3,
            "boundscheck": checked,
            "wraparound": False,
            "initializedcheck": checked,
            "cdivision": True,
            "freethreading_compatible": True,
        },
    ),
)
