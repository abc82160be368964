import os
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


class Fashion:
    """examples/fashion-mnist, as the README uses it."""

    folder = EXAMPLES / "fashion-mnist"

    def __init__(self):
        self.source_probs = np.load(self.folder / "source_probs.npy")
        self.source_labels = self.labels("source")
        self.target_probs = np.load(self.folder / "target_probs.npy")
        self.target_labels = self.labels("target")
        self.classes = (self.folder / "classes.txt").read_text().splitlines()

    def labels(self, side):
        return np.array((self.folder / f"{side}_labels.csv").read_text().splitlines()[1:])


@pytest.fixture(scope="session")
def fashion():
    return Fashion()


@pytest.fixture(scope="session")
def command():
    """The command of this build."""
    path = os.environ.get("LABELSHIFT_COMMAND")
    if not path:
        pytest.skip("LABELSHIFT_COMMAND does not name the command")
    return path
