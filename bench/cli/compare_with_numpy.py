#!/usr/bin/env python3
"""labelshift estimate against EM in numpy, as whole commands on the same .npy files, in turn: processor seconds.

    /usr/bin/python3 bench/cli/compare_with_numpy.py build/ci/labelshift [--cpu avx2] [--repeats 5]

The data are exact posteriors of Gaussian classes. The source has 10,000 rows for 10 classes and 20,000 for 100. The command
reads and checks them, runs both tests, solves and finds intervals. EM does nothing but its steps, to one of L1 1e-6, on one
thread. --cpu lowers the command's instructions (LABELSHIFT_CPU); numpy keeps what the processor has.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import numpy as np


def posteriors(rng, means, prior, count):
    """Rows f(x) under a uniform prior for x of the classes of `prior`, and those classes."""
    labels = rng.choice(len(prior), size=count, p=prior)
    rows = np.empty((count, len(prior)))
    for first in range(0, count, 100_000):
        part = labels[first:first + 100_000]
        x = means[part] + rng.normal(size=(len(part), means.shape[1]))
        log_f = x @ means.T - 0.5 * (means ** 2).sum(1)
        f = np.exp(log_f - log_f.max(1, keepdims=True))
        rows[first:first + len(part)] = f / f.sum(1, keepdims=True)
    return rows, labels


def make_files(folder, count, classes):
    rng = np.random.default_rng(7)
    means = rng.normal(size=(classes, min(classes, 16)))
    uniform = np.full(classes, 1.0 / classes)
    source, labels = posteriors(rng, means, uniform, 10_000 if classes == 10 else 20_000)
    target, _ = posteriors(rng, means, rng.dirichlet(np.ones(classes)), count)
    np.save(f"{folder}/source.npy", source)
    np.savetxt(f"{folder}/labels.csv", labels, fmt="%d")
    np.save(f"{folder}/target.npy", target)
    np.save(f"{folder}/prior.npy", np.bincount(labels, minlength=classes) / len(labels))


EM = """
import sys, numpy as np
folder = sys.argv[1]
P, p = np.load(folder + "/target.npy"), np.load(folder + "/prior.npy")
q, steps = p.copy(), 0
while True:
    a = P * (q / p)
    a /= a.sum(1, keepdims=True)
    new = a.mean(0)
    change, q, steps = abs(new - q).sum(), new, steps + 1
    if change <= 1e-6: break
np.save(folder + "/em.npy", q)
print(steps)
"""


def cpu_seconds(command, environment):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--cpu")
    parser.add_argument("--calibration", default="none")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    lowered = {"LABELSHIFT_CPU": options.cpu} if options.cpu else {}
    one_thread = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    print("rows classes   ours_s     em_s  em_steps  ratio  largest_difference")
    for count, classes in ((1_000_000, 10), (100_000, 100)):
        with tempfile.TemporaryDirectory() as folder:
            make_files(folder, count, classes)
            estimate = [options.command, "estimate", "--source-probs", f"{folder}/source.npy", "--source-labels",
                        f"{folder}/labels.csv", "--target-probs", f"{folder}/target.npy", "--calibration",
                        options.calibration, "--format", "json"]
            ours, em = [], []
            for _ in range(options.repeats):
                seconds, text = cpu_seconds(estimate, lowered)
                ours.append(seconds)
                seconds, steps = cpu_seconds([sys.executable, "-c", EM, folder], one_thread)
                em.append(seconds)
            found = np.array(json.loads(text)["target_prior"])
            apart = abs(found - np.load(f"{folder}/em.npy")).max()
            print(f"{count:7d} {classes:4d} {statistics.median(ours):8.3f} {statistics.median(em):8.3f} {int(steps):9d} "
                  f"{statistics.median(e / o for e, o in zip(em, ours)):6.1f}  {apart:.1e}")


if __name__ == "__main__":
    main()
