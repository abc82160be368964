#!/usr/bin/python3
"""Makes examples/fashion-mnist/ and examples/tiny/ from Fashion-MNIST: the outputs of one real classifier.

Needs the Debian packages dataset-fashion-mnist, python3-numpy, python3-scipy and python3-sklearn. Takes 15 s.
The random numbers are seeded and the arithmetic runs on one thread (the order of a sum, hence its last bits, depends on
the number), so the same library versions on the same type of CPU write the same bytes.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy loads its BLAS

import gzip
import warnings
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

DATASET = Path("/usr/share/datasets/fashion-mnist")
HERE = Path(__file__).resolve().parent
CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
WINTER = [4, 8, 23, 3, 25, 0, 8, 5, 6, 18]  # percent of each class in the shifted target
TINY = ["Pullover", "Coat", "Shirt"]  # the three classes that are hardest to tell apart
TINY_TARGET = [60, 120, 20]  # examples of each in the tiny target


def read_split(name):
    """Images (n, 28, 28) in [0, 1] and labels (n) of the dataset's train or t10k files."""
    with gzip.open(DATASET / f"{name}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(DATASET / f"{name}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.astype(np.float32) / 255, labels


def draw(rng, labels, pool, counts):
    """Positions in `pool` of counts[c] examples of each class c, without replacement, in random order."""
    chosen = [rng.choice(pool[labels[pool] == c], n, replace=False) for c, n in enumerate(counts)]
    return rng.permutation(np.concatenate(chosen))


def write_labels(path, labels):
    path.write_text("".join(f"{name}\n" for name in ["label", *(CLASSES[y] for y in labels)]))


def write_tiny_probs(path, probs):
    """p(y | x, y one of TINY): the ten-class probabilities of those three, renormalised."""
    columns = probs[:, [CLASSES.index(name) for name in TINY]].astype(np.float64)
    columns /= columns.sum(axis=1, keepdims=True)
    rows = [",".join(f"{p:.4g}" for p in row) for row in columns]
    path.write_text("\n".join([",".join(TINY), *rows]) + "\n")


def main():
    rng = np.random.default_rng(2024)
    images, labels = read_split("train")
    test_images, test_labels = read_split("t10k")

    order = rng.permutation(len(labels))
    train, source = order[:10_000], order[10_000:12_000]
    # 80 epochs without early stopping: over-confident, as deployed classifiers often are, so calibration matters.
    warnings.simplefilter("ignore", ConvergenceWarning)
    model = MLPClassifier((128,), alpha=1e-5, batch_size=100, max_iter=80, n_iter_no_change=80, random_state=1)
    model.fit(images[train].reshape(len(train), -1), labels[train])

    def probs(pictures):
        return model.predict_proba(pictures.reshape(len(pictures), -1)).astype(np.float32)

    order = rng.permutation(len(test_labels))
    same, rest = order[:2_000], order[2_000:]
    winter = draw(rng, test_labels, rest, [30 * percent for percent in WINTER])
    # The labels do not move but the pictures do, so the target is no mixture of the source's classes.
    blurred = 0.6 * gaussian_filter(test_images[same], sigma=(0, 1, 1))

    source_probs, winter_probs = probs(images[source]), probs(test_images[winter])
    same_probs, blurred_probs = probs(test_images[same]), probs(blurred)

    full = HERE / "fashion-mnist"
    full.mkdir(exist_ok=True)
    (full / "classes.txt").write_text("".join(f"{name}\n" for name in CLASSES))
    np.save(full / "source_probs.npy", source_probs)
    write_labels(full / "source_labels.csv", labels[source])
    np.save(full / "target_probs.npy", winter_probs)
    write_labels(full / "target_labels.csv", test_labels[winter])
    np.save(full / "target_same_probs.npy", same_probs)
    np.save(full / "target_blurred_probs.npy", blurred_probs)

    tiny = HERE / "tiny"
    tiny.mkdir(exist_ok=True)
    tiny_counts = np.zeros(len(CLASSES), int)
    tiny_counts[[CLASSES.index(name) for name in TINY]] = TINY_TARGET
    tiny_source = np.flatnonzero(np.isin(labels[source], np.flatnonzero(tiny_counts)))[:300]
    tiny_target = draw(rng, test_labels[winter], np.arange(len(winter)), tiny_counts)
    write_tiny_probs(tiny / "source_probs.csv", source_probs[tiny_source])
    write_labels(tiny / "source_labels.csv", labels[source][tiny_source])
    write_tiny_probs(tiny / "target_probs.csv", winter_probs[tiny_target])

    for name, p, y in [("train", probs(images[train]), labels[train]), ("source", source_probs, labels[source]),
                       ("target", winter_probs, test_labels[winter]), ("target_same", same_probs, test_labels[same]),
                       ("target_blurred", blurred_probs, test_labels[same])]:
        print(f"{name:15} accuracy {np.mean(p.argmax(1) == y):.3f}, mean confidence {p.max(1).mean():.3f}")


if __name__ == "__main__":
    main()
