"""Builds the compiled part of the Python package by CMake; the rest is in pyproject.toml.

LABELSHIFT_BUILD names a finished CMake build with LABELSHIFT_WITH_PYTHON=ON to take it from; else it is built here.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

root = Path(__file__).resolve().parent


class CMakeBuild(build_ext):
    def build_extension(self, extension):
        build = Path(os.environ.get("LABELSHIFT_BUILD") or self.compiled())
        (module,) = (build / "python" / "labelshift").glob("_core.*.so")
        target = Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(module, target)

    def compiled(self):
        build = Path(self.build_temp).resolve() / "cmake"
        options = {"BUILD_TESTING": "OFF", "LABELSHIFT_WITH_PYTHON": "ON", "Python_EXECUTABLE": sys.executable}
        options |= {f"LABELSHIFT_WITH_{library}": "OFF" for library in ("TORCH", "MPI", "GRPC")}
        arguments = [f"-D{name}={value}" for name, value in options.items()]
        subprocess.run(["cmake", "-S", root, "-B", build, "-G", "Ninja", *arguments], check=True)
        subprocess.run(["cmake", "--build", build, "--target", "labelshift_python"], check=True)
        return build


version = re.search(r"project\(labelshift VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text()).group(1)
setup(version=version, ext_modules=[Extension("labelshift._core", [])], cmdclass={"build_ext": CMakeBuild})
