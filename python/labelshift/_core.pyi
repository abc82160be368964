import numpy as np

__version__: str

class LabelShiftError(ValueError): ...

class Correction:
    def apply(self, probs: np.ndarray, logits: bool) -> np.ndarray: ...

class Report:
    def json(self) -> str: ...
    def text(self) -> str: ...
    def svg(self) -> str: ...
    def warnings(self) -> list[str]: ...
    def correction(self) -> Correction: ...
    def correct(self, probs: np.ndarray, logits: bool, if_fits: bool) -> np.ndarray: ...

class Look:
    def json(self) -> str: ...
    def text(self) -> str: ...
    def svg(self) -> str: ...

class Stream:
    def add(self, probs: np.ndarray, logits: bool) -> None: ...
    def look(self) -> Look: ...
    def warnings(self) -> list[str]: ...

def estimators() -> list[tuple[str, str]]: ...
def calibrations() -> list[tuple[str, str]]: ...
def renormalise(probs: np.ndarray) -> np.ndarray: ...
def check_fitted(
    *, probs: np.ndarray | None, labels: np.ndarray | None, weights: np.ndarray | None, logits: bool
) -> None: ...
def analyse(
    *,
    source_probs: np.ndarray | None,
    source_labels: np.ndarray | None,
    source_weights: np.ndarray | None,
    source_prior: np.ndarray | None,
    target_probs: np.ndarray,
    target_weights: np.ndarray | None,
    classes: list[str],
    named: bool,
    logits: bool,
    estimator: str,
    settings: dict[str, str],
    calibration: str,
    level: float,
    bootstrap: int,
    seed: int,
    smoothing: float,
    bound_terms: bool,
) -> Report: ...
def follow(
    *,
    source_probs: np.ndarray,
    source_labels: np.ndarray,
    source_weights: np.ndarray | None,
    source_prior: np.ndarray | None,
    classes: list[str],
    named: bool,
    logits: bool,
    estimator: str,
    settings: dict[str, str],
    calibration: str,
    level: float,
    smoothing: float,
    half_life: float,
    alarm: float,
) -> Stream: ...
