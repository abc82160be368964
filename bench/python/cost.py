"""What Python costs: cost.py build/ci/bench/estimate_call [--repeats 20]

Prints the processor time of `.estimate` on 1e6 x 10 float64 probabilities next to that of the same C++ call on the same
rows, in turn, their difference run by run, and the part of it that is spent in Python; and what `import labelshift`
takes beyond `import numpy`.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from labelshift import LabelShiftEstimator, _core


def probabilities(rng, labels):
    logits = rng.normal(size=(len(labels), 10)) + 2.0 * np.eye(10)[labels]
    probs = np.exp(logits)
    return probs / probs.sum(axis=1, keepdims=True)


class Timed:
    """The compiled call, and how long it took."""

    def __init__(self, call):
        self.call, self.seconds = call, 0.0

    def __call__(self, **arguments):
        start = time.process_time()
        report = self.call(**arguments)
        self.seconds = time.process_time() - start
        return report


def estimates(program, repeats, folder):
    rng = np.random.default_rng(0)
    source_labels = rng.integers(10, size=2000)
    np.save(folder / "source.npy", probabilities(rng, source_labels))
    (folder / "labels.csv").write_text("label\n" + "\n".join(map(str, source_labels)) + "\n")
    np.save(folder / "target.npy", probabilities(rng, rng.choice(10, size=1_000_000, p=np.arange(1, 11) / 55)))
    target = np.load(folder / "target.npy", mmap_mode="r")
    estimator = LabelShiftEstimator().fit(np.load(folder / "source.npy"), source_labels)
    _core.analyse = timed = Timed(_core.analyse)
    arguments = [program, folder / "source.npy", folder / "labels.csv", folder / "target.npy"]
    python, wrapper, cpp = [], [], []
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        for _ in range(repeats + 1):
            other.stdin.write("\n")
            other.stdin.flush()
            seconds, first_share = map(float, other.stdout.readline().split())
            start = time.process_time()
            result = estimator.estimate(target)
            python.append(time.process_time() - start)
            wrapper.append(python[-1] - timed.seconds)
            cpp.append(seconds)
            assert result.target_prior[0] == first_share
        other.stdin.close()
    more = [p - c for p, c in zip(python, cpp)]
    return {
        name: [1e3 * second for second in seconds[1:]]
        for name, seconds in {"C++": cpp, "Python": python, "more": more, "of that in Python": wrapper}.items()
    }


def import_times(repeats):
    def seconds(code):
        timing = f"import time; start = time.process_time(); {code}; print(time.process_time() - start)"
        return float(subprocess.run([sys.executable, "-c", timing], capture_output=True, check=True, text=True).stdout)

    pairs = [(seconds("import numpy"), seconds("import numpy, labelshift")) for _ in range(repeats)]
    return {
        "import numpy": [1e3 * numpy for numpy, _ in pairs],
        "and labelshift": [1e3 * both for _, both in pairs],
        "more": [1e3 * (both - numpy) for numpy, both in pairs],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = estimates(options.program, options.repeats, Path(folder))
    print(f"milliseconds, {options.repeats} runs")
    print(f"{'':18} {'median':>8} {'quartiles':>17}")
    for times in (found, import_times(options.repeats)):
        for name, values in times.items():
            low, middle, high = statistics.quantiles(values, n=4)
            print(f"{name:18} {middle:8.2f} {low:8.2f} {high:8.2f}")


if __name__ == "__main__":
    main()
