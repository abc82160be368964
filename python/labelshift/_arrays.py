"""Arrays, frames and tensors as the compiled module takes them. Nothing is copied that lies in memory as a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelshift import _core


def matrix(values: Any, renormalise: bool = False) -> np.ndarray:
    """Scores as a float32 or float64 array, the caller's own memory where that is one already."""
    array = plain_array(values)
    if array.dtype not in (np.float32, np.float64) or not array.dtype.isnative:
        array = as_numbers(array)
    if array.ndim == 2 and (not array.flags.aligned or any(s < 0 or s % array.itemsize for s in array.strides)):
        array = np.ascontiguousarray(array)
    return _core.renormalise(array) if renormalise else array


def plain_array(values: Any) -> np.ndarray:
    """A PyTorch tensor gives its memory to NumPy, and so do frames whose columns are of one type."""
    if hasattr(values, "detach") and hasattr(values, "element_size"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() and values.element_size() < 4 else values
        return values.numpy()  # bfloat16 above, which NumPy does not know, and float16 became float32
    if np.ma.is_masked(values):
        raise _core.LabelShiftError("found masked entries; leave their rows out or fill them")
    try:
        return np.asarray(values)
    except ValueError as problem:
        raise _core.LabelShiftError(f"expected rows of equal lengths, and {problem}") from None


def as_numbers(values: Any) -> np.ndarray:
    try:
        return plain_array(values).astype(np.float64)
    except (TypeError, ValueError) as problem:
        raise _core.LabelShiftError(f"expected numbers, and {problem}") from None


def weights(values: Any) -> np.ndarray | None:
    return None if values is None else as_numbers(values)


def like(values: Any, rows: np.ndarray) -> Any:
    """Other rows for those of a frame, as a frame."""
    if not hasattr(values, "columns") or not hasattr(values, "index"):
        return rows
    return type(values)(rows, index=values.index, columns=values.columns)


def frame_columns(values: Any) -> list[Any] | None:
    """The names of a frame's columns, unless they are the numbers that pandas gives where there are none."""
    columns = getattr(values, "columns", None)
    if columns is None or not hasattr(values, "index"):
        return None
    names = list(columns)
    return None if names == list(range(len(names))) else names


def class_names(classes: Any) -> list[Any] | None:
    if classes is None:
        return None
    try:
        names = list(classes)
        set(names)
    except TypeError:
        raise _core.LabelShiftError(f"classes is {classes!r}, expected a list of names, one for each column") from None
    return names


def label_codes(labels: Any, names: list[Any] | None, classes: int) -> tuple[np.ndarray, list[Any] | None]:
    """The number of each label's column, and the names of the columns where labels tell them.

    Labels are names of columns. Where no column is named by a number, a number k is the k-th of them. Where columns
    have no names, other labels stand for them in sorted order, as the `classes_` of a scikit-learn classifier do.
    """
    array = plain_array(labels)
    if array.ndim != 1:
        raise _core.LabelShiftError(
            f"source labels: found an array of {array.ndim} dimensions, expected one label a row"
        )
    in_range = array.dtype.kind in "iub" and (array.size == 0 or (array.min() >= 0 and array.max() < classes))
    if in_range and not any(isinstance(name, (int, float, np.number, np.bool_)) for name in names or []):
        return array.astype(np.intc), names
    try:
        found, codes = np.unique(array, return_inverse=True)
    except TypeError:
        raise _core.LabelShiftError("source labels: found labels of several types, expected names or numbers") from None
    if names is None:
        if len(found) != classes:
            raise _core.LabelShiftError(
                f"source labels: found {len(found)} different labels for {classes} columns that nothing names; "
                "name the columns with classes=[...]"
            )
        names = found.tolist()
    column_of = {name: column for column, name in enumerate(names)}
    columns = np.empty(len(found), dtype=np.intc)
    for i, label in enumerate(found.tolist()):
        if label not in column_of:
            raise _core.LabelShiftError(
                f"source labels: found {label!r}, expected one of the classes {', '.join(map(repr, names))}"
            )
        columns[i] = column_of[label]
    return columns[codes], names
