"""The compiled extensions; everything else is in pyproject.toml.

GREEDY_CORE_CHECKED=1   build with bounds checks and native assertions
GREEDY_CORE_SANITIZE=1  build with AddressSanitizer and UndefinedBehaviorSanitizer (`make sanitize`)
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

checked = os.environ.get("GREEDY_CORE_CHECKED") == "1"
sanitize = os.environ.get("GREEDY_CORE_SANITIZE") == "1"

# Contraction is off so that a * b + c means the same on every machine; where a fused product is wanted it is written.
compile_args = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-pthread"]
compile_args += ["-Wall", "-Wextra", "-Wno-maybe-uninitialized"]  # the last is about GCC's own AVX-512 header
link_args = ["-pthread"]
macros = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION")]
if checked or sanitize:
    compile_args += ["-UNDEBUG", "-O1", "-g"]
else:
    compile_args += ["-g0"]
if sanitize:
    compile_args += ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
    link_args += ["-fsanitize=address,undefined"]


class SideBySide(build_ext):
    """Compiles the sources of an extension at the same time, one process each."""

    def build_extension(self, ext: Extension) -> None:
        """Compile and link one extension."""
        compile_in_turn = self.compiler.compile

        def compile_together(sources: list[str], *, extra_postargs: list[str], **options: object) -> list[str]:
            def compile_one(source: str) -> list[str]:
                # What Cython writes only passes on calls: no faster at -O3, and twice as long to compile. The modules
                # whose loops stand in headers have them in it.
                level = [] if "native" in Path(source).parts or "_kernel" not in source else ["-O1"]
                return compile_in_turn([source], extra_postargs=[*extra_postargs, *level], **options)

            with ThreadPoolExecutor(len(sources)) as pool:
                return [name for names in pool.map(compile_one, sources) for name in names]

        self.compiler.compile = compile_together
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = compile_in_turn


def extension(name: str, sources: list[Path]) -> Extension:
    """Return greedy_core.<name> with the native sources it needs."""
    return Extension(
        f"greedy_core.{name}",
        sources=[f"greedy_core/{name}.pyx", *sorted(map(str, sources))],
        depends=sorted(map(str, NATIVE.glob("*.h"))),
        include_dirs=[str(NATIVE), np.get_include()],
        language="c++",
        define_macros=macros,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )


NATIVE = Path("greedy_core/native")

setup(
    cmdclass={"build_ext": SideBySide},
    ext_modules=cythonize(
        [
            extension("_kernel", [*NATIVE.glob("*.cpp")]),
            extension("_graph", [NATIVE / "inner_product.cpp"]),
            extension("_fold_in", []),
        ],
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
