"""pip installs the package in a virtual environment, without a network.

The compiled part is taken from the build under test where there is one (LABELSHIFT_BUILD), since building core again
takes minutes; `tests/deep python` builds it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from conftest import EXAMPLES, ROOT

USE = f"""
import importlib.metadata, pathlib, sys
import numpy as np
import labelshift
folder = pathlib.Path(labelshift.__file__).parent
assert folder.is_relative_to(sys.prefix), folder
assert {{"py.typed", "_core.pyi"}} <= {{path.name for path in folder.iterdir()}}
assert importlib.metadata.version("labelshift") == labelshift.__version__
examples = pathlib.Path({str(EXAMPLES / "fashion-mnist")!r})
labels = (examples / "source_labels.csv").read_text().splitlines()[1:]
estimator = labelshift.LabelShiftEstimator(classes=(examples / "classes.txt").read_text().splitlines())
result = estimator.fit(np.load(examples / "source_probs.npy"), labels).estimate(np.load(examples / "target_probs.npy"))
print(result.verdict, result.target_prior.round(2).tolist())
"""


def test_pip_installs_the_package_in_a_virtual_environment(tmp_path):
    source = tmp_path / "source"  # pip builds where the source is
    source.mkdir()
    for name in ("CMakeLists.txt", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, source)
    for folder in ("cmake", "python", "src"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    outside |= {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(*command):
        done = subprocess.run(command, env=outside, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", "--system-site-packages", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--no-build-isolation", source)
    assert run(python, "-c", USE) == "moved [0.04, 0.08, 0.21, 0.03, 0.26, 0.0, 0.09, 0.05, 0.06, 0.17]\n"
    run(python, "-m", "pip", "uninstall", "-y", "labelshift")
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    assert not list(site.glob("labelshift*"))
