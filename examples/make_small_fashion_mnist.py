#!/usr/bin/python3
"""Makes examples/small-fashion-mnist/: 400 training and 200 test images of Fashion-MNIST, the first of each class.

Needs the Debian packages dataset-fashion-mnist and python3-numpy. Writes the same bytes every time.
"""

import gzip
import struct
from pathlib import Path

import numpy as np

DATASET = Path("/usr/share/datasets/fashion-mnist")
HERE = Path(__file__).resolve().parent / "small-fashion-mnist"
CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


def write_idx(path, array):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)  # 8: unsigned bytes
    path.write_bytes(gzip.compress(header + array.tobytes(), 9, mtime=0))


def main():
    HERE.mkdir(exist_ok=True)
    (HERE / "classes.txt").write_text("".join(f"{name}\n" for name in CLASSES))
    for part, of_each_class in [("train", 40), ("t10k", 20)]:
        with gzip.open(DATASET / f"{part}-images-idx3-ubyte.gz") as file:
            images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
        with gzip.open(DATASET / f"{part}-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)
        chosen = np.sort(np.concatenate([np.flatnonzero(labels == c)[:of_each_class] for c in range(len(CLASSES))]))
        write_idx(HERE / f"{part}-images-idx3-ubyte.gz", images[chosen])
        write_idx(HERE / f"{part}-labels-idx1-ubyte.gz", labels[chosen])


if __name__ == "__main__":
    main()
