"""What the documents say is what happens: doctests of the package, and the Python of documents.

In a document a block marked python is run, in a namespace that the blocks of that document share, and one marked sh by
the shell. A block marked text right after it is what it prints; "..." there stands for anything.
"""

import doctest
import importlib
import importlib.util
import io
import os
import pkgutil
import re
import subprocess
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from conftest import ROOT

import labelshift

MODULES = [labelshift.__name__] + [f"labelshift.{module.name}" for module in pkgutil.iter_modules(labelshift.__path__)]
DOCUMENTS = ["README.md", "docs/python.md"] + [f"examples/coming-from-{name}.md" for name in ("quapy", "abstention")]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples_in_docstrings():
    finder = doctest.DocTestFinder()
    modules = [importlib.import_module(name) for name in MODULES if "_core" not in name]
    with_examples = {test.name for module in modules for test in finder.find(module) if test.examples}
    assert "labelshift" in with_examples and "labelshift._loss.entropy_regularised_loss" in with_examples


def output_of(kind, code, name, namespace, path):
    if kind == "sh":
        environment = os.environ | {"PATH": path}
        return subprocess.run(["sh", "-ec", code], check=True, capture_output=True, text=True, env=environment).stdout
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, name, "exec"), namespace)
    return printed.getvalue()


def run(document, path, left_out=()):
    """Blocks that import a package which is left out are not run."""
    namespace = {"__name__": "document"}
    blocks = BLOCK.findall(document.read_text())
    for number, (kind, text) in enumerate(blocks):
        if kind not in ("python", "sh") or any(f"from {package}" in text for package in left_out):
            continue
        found = output_of(kind, text, f"{document.name}, block {number + 1}", namespace, path)
        following, expected = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
        if following == "text":
            assert doctest.OutputChecker().check_output(expected, found, FLAGS), f"after\n{text}\nfound\n{found}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_run_as_they_stand(name, command, tmp_path, monkeypatch):
    """QuaPy and abstention are no packages of Debian: what they print is compared where they are installed."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    missing = [package for package in ("quapy", "abstention") if importlib.util.find_spec(package) is None]
    run(ROOT / name, f"{Path(command).parent}:{os.environ['PATH']}", missing)
