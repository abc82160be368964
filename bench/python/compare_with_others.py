"""The default estimator against those of QuaPy and abstention: compare_with_others.py [--draws 100] [--plain] [--bandwidths ...]

Each draw splits what a classifier said of examples that it was not trained on into a labelled source and a pool, draws
a label mix from Dirichlet(alpha), and draws a target of that mix from the pool, with replacement. Every method sees the
same source and target. The table has the mean absolute error of the prevalence, a mean over classes and draws, in
percent of the target, and its difference from the default's with twice the standard error of that, paired by draw.

EM, EM after BCTS, ACC and KDEy-ML are QuaPy's where it is installed, RLLS is abstention's where that and cvxpy are;
otherwise, or with --plain, they are the references below, of the same formulas.
"""

import argparse
import importlib.util
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KernelDensity

import labelshift

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "fashion-mnist"


def one_hot(labels, m):
    return np.eye(m)[labels]


# Plain references. Each takes the source's probabilities and labels and the target's probabilities, and gives q.


def em(source, labels, target, prior=None, tolerance=1e-4, most=1000):
    """Saerens et al. (2002), from the source's label mix, with QuaPy's rule for stopping."""
    p = np.bincount(labels, minlength=source.shape[1]) / len(labels) if prior is None else prior
    q = p
    for _ in range(most):
        posterior = target * (q / p)
        posterior /= posterior.sum(axis=1, keepdims=True)
        before, q = q, posterior.mean(axis=0)
        if np.abs(q - before).mean() < tolerance:
            break
    return q


def bcts(source, labels, target):
    """Alexandari et al. (2020): one temperature and a bias a class, by maximum likelihood; as probabilities."""
    m = source.shape[1]
    z, y = np.log(np.clip(source, 1e-7, 1)), one_hot(labels, m)

    def nll(theta):
        logits = z * theta[0] + theta[1:]
        log_probs = logits - logsumexp(logits, axis=1, keepdims=True)
        off = np.exp(log_probs) - y
        gradient = np.concatenate([[(off * z).sum()], off.sum(axis=0)]) / len(z)
        return -(log_probs * y).sum() / len(z), gradient

    theta = minimize(nll, np.concatenate([[1.0], np.zeros(m)]), jac=True, method="L-BFGS-B").x

    def calibrated(probs):
        logits = np.log(np.clip(probs, 1e-7, 1)) * theta[0] + theta[1:]
        return np.exp(logits - logsumexp(logits, axis=1, keepdims=True))

    return calibrated(source), calibrated(target)


def em_bcts(source, labels, target):
    source, target = bcts(source, labels, target)
    return em(source, labels, target, prior=source.mean(axis=0))


def on_simplex(loss, m):
    uniform = np.full(m, 1 / m)
    total = {"type": "eq", "fun": lambda q: 1 - q.sum()}
    return minimize(loss, uniform, method="SLSQP", bounds=[(0, 1)] * m, constraints=total).x


def acc(source, labels, target):
    """Forman (2008), by least squares over the simplex: the shares that are predicted, given the confusion matrix."""
    m = source.shape[1]
    confusion = one_hot(source.argmax(axis=1), m).T @ one_hot(labels, m)
    confusion /= confusion.sum(axis=0)
    predicted = np.bincount(target.argmax(axis=1), minlength=m) / len(target)
    return on_simplex(lambda q: np.sum((predicted - confusion @ q) ** 2), m)


def kdey_ml(source, labels, target, bandwidth=0.1):
    """Moreo et al. (2024): maximum likelihood of a mixture of the classes' kernel densities over the simplex."""
    m = source.shape[1]
    log_a = np.column_stack(
        [KernelDensity(bandwidth=bandwidth).fit(source[labels == c]).score_samples(target) for c in range(m)]
    )
    a = np.exp(log_a)
    return on_simplex(lambda q: -np.log(a @ q + 1e-10).sum(), m)


def kdey_ml_by_em(bandwidth):
    """The same with another bandwidth, and maximised until nothing moves: SLSQP stops early, most of all where shares
    are 0."""

    def estimate(source, labels, target):
        m = source.shape[1]
        log_a = np.column_stack(
            [KernelDensity(bandwidth=bandwidth).fit(source[labels == c]).score_samples(target) for c in range(m)]
        )
        uniform = np.full(m, 1 / m)
        a = np.exp(log_a - log_a.max(axis=1, keepdims=True))
        return em(None, None, a * uniform, prior=uniform, tolerance=1e-10, most=3000)

    return estimate


def rlls(source, labels, target, alpha=0.01, delta=0.05):
    """Azizzadenesheli et al. (2019), with abstention's alpha: theta = r - 1 >= -1 that minimises
    |C theta - b|_2 + alpha rho |theta|_2."""
    n, m = source.shape
    predicted = one_hot(source.argmax(axis=1), m)
    joint = predicted.T @ one_hot(labels, m) / n
    b = np.bincount(target.argmax(axis=1), minlength=m) / len(target) - predicted.mean(axis=0)
    rho = alpha * 3 * (2 * np.log(2 * m / delta) / (3 * n) + np.sqrt(2 * np.log(2 * m / delta) / n))

    def loss(theta):
        off = joint @ theta - b
        error, length = np.sqrt(off @ off + 1e-16), np.sqrt(theta @ theta + 1e-16)
        return error + rho * length, joint.T @ off / error + rho * theta / length

    theta = minimize(loss, np.full(m, 1e-3), jac=True, method="L-BFGS-B", bounds=[(-1, None)] * m,
                     options={"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-12}).x
    return as_prior(1 + theta, labels)


def as_prior(ratio, labels):
    """Ratios that need not fit the source's mix, as shares."""
    q = ratio * np.bincount(labels, minlength=len(ratio)) / len(labels)
    return q / q.sum()


def labelshift_default(source, labels, target):
    return labelshift.LabelShiftEstimator().fit(source, labels).estimate(target).target_prior


class Said(BaseEstimator):
    """A classifier of what another has said, for packages that want one."""

    def __init__(self, classes):
        self.classes = classes

    def fit(self, X=None, y=None):
        self.classes_ = np.arange(self.classes)
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1)


def quapy_methods():
    from quapy.method.aggregative import ACC, EMQ, KDEyML

    def run(make):
        def estimate(source, labels, target):
            return make(Said(source.shape[1])).fit(source, labels).predict(target)

        return estimate

    return {
        "EM": run(lambda c: EMQ(c.fit(), fit_classifier=False)),
        "EM-BCTS": run(EMQ.EMQ_BCTS),
        "ACC": run(lambda c: ACC(c.fit(), fit_classifier=False, val_split=None)),
        "KDEy-ML": run(lambda c: KDEyML(c.fit(), fit_classifier=False, val_split=None)),
    }


def abstention_methods():
    from abstention.label_shift import RLLSImbalanceAdapter

    def estimate(source, labels, target):
        adapter = RLLSImbalanceAdapter()(one_hot(labels, source.shape[1]), target, source)
        return as_prior(adapter.multipliers, labels)

    return {"RLLS": estimate}


def methods(plain):
    """The methods, and where each is from."""
    references = {"EM": em, "EM-BCTS": em_bcts, "ACC": acc, "KDEy-ML": kdey_ml, "RLLS": rlls}
    found = {"labelshift": labelshift_default} | references
    origin = {name: "reference" for name in found} | {"labelshift": labelshift.__version__}
    if not plain and importlib.util.find_spec("quapy"):
        import quapy

        found |= quapy_methods()
        origin |= {name: f"QuaPy {quapy.__version__}" for name in quapy_methods()}
    if not plain and importlib.util.find_spec("abstention") and importlib.util.find_spec("cvxpy"):
        found |= abstention_methods()
        origin |= {name: "abstention" for name in abstention_methods()}
    return found, origin


def digits():
    X, y = load_digits(return_X_y=True)
    X_train, X_rest, y_train, y_rest = train_test_split(X / 16, y, train_size=0.5, stratify=y, random_state=0)
    classifier = LogisticRegression(C=10, max_iter=1000).fit(X_train, y_train)
    return classifier.predict_proba(X_rest), y_rest


def shipped_example():
    names = (EXAMPLE / "classes.txt").read_text().splitlines()
    probs = np.concatenate([np.load(EXAMPLE / f"{side}_probs.npy") for side in ("source", "target")]).astype(float)
    labels = sum([(EXAMPLE / f"{side}_labels.csv").read_text().splitlines()[1:] for side in ("source", "target")], [])
    return probs / probs.sum(axis=1, keepdims=True), np.array([names.index(label) for label in labels])


def errors_of_draws(probs, y, alpha, draws, rows, found, seed):
    """(draws, methods) mean absolute error over the classes."""
    m = probs.shape[1]
    errors = np.empty((draws, len(found)))
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        source, pool = train_test_split(
            np.arange(len(y)), train_size=0.5, stratify=y, random_state=int(rng.integers(2**31))
        )
        mix = rng.dirichlet(np.full(m, alpha))
        labels = rng.choice(m, size=rows, p=mix)
        target = np.array([rng.choice(pool[y[pool] == c]) for c in labels])
        truth = np.bincount(labels, minlength=m) / rows
        for i, method in enumerate(found.values()):
            errors[draw, i] = np.abs(method(probs[source], y[source], probs[target]) - truth).mean()
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--rows", type=int, default=500, help="of a target")
    parser.add_argument("--plain", action="store_true", help="references alone")
    parser.add_argument("--bandwidths", type=float, nargs="*", default=[], help="of KDEy-ML, a column each")
    options = parser.parse_args()
    found, origin = methods(options.plain)
    found |= {f"KDEy-ML {bandwidth:g}": kdey_ml_by_em(bandwidth) for bandwidth in options.bandwidths}
    print(", ".join(f"{name}: {where}" for name, where in origin.items()))
    print(f"{options.draws} draws of {options.rows} rows; error in percent, and its difference from labelshift's\n")
    print("| data | shift | " + " | ".join(found) + " |\n|" + "---|" * (len(found) + 2))
    for data, (probs, y) in {"digits": digits(), "examples/fashion-mnist": shipped_example()}.items():
        for alpha in (1.0, 0.1):
            errors = 100 * errors_of_draws(probs, y, alpha, options.draws, options.rows, found, seed=1)
            cells = [f"{errors[:, 0].mean():.3f}"]
            for i in range(1, len(found)):
                difference = errors[:, i] - errors[:, 0]
                noise = 2 * difference.std(ddof=1) / np.sqrt(options.draws)
                cells.append(f"{errors[:, i].mean():.3f} ({difference.mean():+.3f} ± {noise:.3f})")
            print(f"| {data} | Dirichlet({alpha:g}) | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
