"""`FedFairClassifier`: the methods of the package behind scikit-learn's fit and predict."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table
from fairsilo.errors import FairSiloWarning
from fairsilo.estimator.errors import as_value_errors
from fairsilo.estimator.fitted_state import Kept
from fairsilo.estimator.given import given
from fairsilo.estimator.inputs import table_of
from fairsilo.estimator.outcome import Fitted, train
from fairsilo.estimator.results import Results, described
from fairsilo.estimator.seen import warn_of_seen
from fairsilo.estimator.settings import seed_of
from fairsilo.estimator.terms import terms_of
from fairsilo.export.onnx import to_onnx
from fairsilo.fairness import DEFAULT, Notion
from fairsilo.method import DEFAULT as DEFAULT_METHOD
from fairsilo.method import METHODS, Method
from fairsilo.model import Model
from fairsilo.predictor.base import scores_of
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared
from fairsilo.solver import Solver, Status


def _has_scores(estimator: FedFairClassifier) -> bool:
    method = estimator.method
    spec = method if isinstance(method, Method) else METHODS.get(str(method))
    if spec is not None and spec.own_models:
        raise AttributeError(f"method {spec.name!r} has no decision_function: use predict_proba")
    return True


@dataclass(eq=False, repr=False)
class FedFairClassifier(Results, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that is fair between groups, trained across several holders of rows.

    It solves

        min L(theta)   subject to   |L^{a,c}(theta) - L^{b,c}(theta)| <= epsilon

    with one constraint for every pair of groups (a, b) and every protected class c, where L is the
    mean cross-entropy of all rows and L^{a,c} that of the rows of group a in class c (FedFair's
    DGEO); or with the constraints of another `notion` of fairness. The rows of a client are used
    in sums alone; here, in one process, the clients are simulated.

    Parameters
    ----------
    epsilon : float or dict, default=None
        The largest difference of mean losses between two groups; None is 0.05, or for notions
        about rates a `target_deo` of 0.05. A dict has limits of single
        pairs, ``{("Female", "Male"): 0.02}`` (with ``against="rest"`` of single groups,
        ``{"Female": 0.02}``); the others have 0.05. For `method="af"` its trade-off tau; `fedavg`,
        `eo` and `ceo` do not use it.
    method : str or Method, default="fedfair"
        - ``fedfair``: the constraints above, estimated over all clients.
        - ``lco``: every client's own estimate is a constraint. Needs `clients`.
        - ``fedavg``: no constraint; the gap is only measured.
        - ``st``: every client trains alone under its own constraint; the class is the clients'
          vote, the probability their mean. Needs `clients`.
        - ``eo``, ``ceo``: `fedavg`, then (calibrated) equalised odds fitted at each client. Two
          classes and two groups; `sensitive_features` also when predicting.
        - ``thresholds``: the same with a threshold for each group, within `target_deo`.
        - ``af``: AgnosticFair. Two classes and two groups, ``model="lr"``, its own solver. Its
          adversary does not see columns of X that have the name of `sensitive_features`.
    after : str, default=None
        What ``eo``, ``ceo`` and ``thresholds`` repair: ``fedavg`` (None) or another method.
    model : {"lr", "mlp", "additive"} or callable, default="lr"
        Logistic regression (multinomial for several classes), a network of ReLU units, an additive
        model (``additive``: a curve for each number, a value for each category, and pairs of
        them), or a function from (features, classes) to a Model.
    hidden : tuple of int, default=None
        The sizes of the network's hidden layers, such as ``(32, 16)``; None is ``(8, 4)``.
    penalty : {"none", "auto", "validation"} or float, default=None
        Half the sum of squared weights times this number is added to the sum of all rows' losses,
        so that it is 1 / C of scikit-learn. ``auto`` chooses it by AIC while the model without a
        limit is trained (for ``lr``), ``validation`` by a fifth of every client's rows. None is no
        penalty, and for ``additive`` ``auto``, or with `dp_epsilon` what suits the noise.
    pairs : int or str, default=None
        For ``additive``: how many pairs of features to cross, the strongest, or which, such as
        ``"age:hours,sex:race"``. None is 10; with `dp_epsilon` none, and they can only be named.
    solver : str or Solver, default=None
        ``newton``, ``lbfgs`` or ``agp`` (the paper's), or an object such as
        ``Newton(tolerance=1e-9)``. None takes Newton, and L-BFGS for models
        too large for it.
    estimator : {"pooled", "mean"}, default="pooled"
        The gap of the union of all rows, or the paper's average of the clients' gaps.
    protected_class : class label, list of them or "all", default=None
        The classes in which the groups are compared; None is ``classes_[1]``, "all" gives
        equalised odds.
    groups : list, default=None
        The groups to compare; None compares all that are found. With `dp_epsilon` they have to be
        named; rows of other groups train the objective and are compared with nobody.
    against : {"pairs", "rest"}, default="pairs"
        Compare every two groups, or each group with all the others together.
    pool : int, default=None
        Groups with fewer rows than this in a protected class are compared as one, "(other)".
        None pools none.
    notion : str or Notion, default="equal-opportunity"
        What is to be equal: ``equal-opportunity`` and ``equalized-odds`` (losses in the protected
        classes, in all classes), ``demographic-parity`` (how readily the protected class is
        predicted), ``accuracy-parity`` (losses on the whole), or ``bounded-loss`` (no group's mean
        loss above epsilon).
    target_deo : float, default=None
        Instead of `epsilon`, the largest difference of rates: of true positives, or of what
        `notion` compares. Only for `method="fedfair"`.
    target_by : {"proxy", "search"}, default="proxy"
        How the target is met: by limiting the rates themselves, or by searching for an epsilon with
        a fifth of every client's rows set aside.
    target_confidence : float, default=None
        Promise the target for the population with this confidence: models are tested on a fifth of
        every client's rows, set aside. An error says how many rows that takes.
    class_weight : dict or "balanced", default=None
        What a row of each class weighs in the objective, beside `sample_weight`; ``balanced``
        gives all classes the same weight in all. Limits do not change. None is 1 for all.
    decide_at : float or str, default=None
        Of two classes, from which probability of ``classes_[1]`` on that is predicted: a number,
        or chosen on the training rows by ``"balanced-accuracy"``, ``"f1"`` or ``"share=0.2"`` (a
        fifth of the rows). None is 0.5.
    local_epochs : int, default=None
        Epochs that each client trains by itself in a round, before the models are averaged: for
        ``method="fedavg"``, and for ``fedfair`` with ``solver="agp"``. None is one step over all
        rows.
    batch : int, default=None
        Rows of a step in these epochs; None is all rows of the client.
    max_rounds : int, default=None
        The most rounds; None is 150 for Newton, 300 for L-BFGS, 20,000 for AGP.
    early_stopping : bool, default=False
        Stop where the loss of a fifth of every client's rows, set aside, is lowest; the model is
        then trained on all rows, for as many rounds.
    random_state : int or RandomState, default=None
        The seed of the network's start, and of what EO and CEO draw. None is 0: a fit is
        repeatable in any case.
    dp_epsilon : float, default=None
        The epsilon of differential privacy of a training row, spent by the whole fit. For
        `method` "fedfair" and "fedavg"; needs `bounds`. The noise is not seeded, so that no two
        fits are alike. Figures of the training rows come from the noisy sums alone.
    dp_delta : float, default=1e-5
        The delta of differential privacy; choose it far below one over the number of rows.
    dp_split : tuple, default=(0.1, 0.75, 0.15)
        Shares of the budget for the encoder, the objective and the constraint.
    dp_clip : float, default=1.0
        The longest gradient of one row; of an additive model as a multiple of half the longest.
    bounds : dict, default=None
        With `dp_epsilon`, for every column of X, from public knowledge and not from the rows: a
        number's ``(lowest, highest)``, a tuple, or a category's list of values. Cells that are
        neither are missing.
    classes : list, default=None
        With `dp_epsilon`, all classes of y. Rows of others are left out.
    maximum_weight : float, default=None
        With `dp_epsilon` and `sample_weight`, the largest weight; larger ones count as it.
    client_names : list, default=None
        With `dp_epsilon` and `clients`, all their names. Rows of others are left out.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    groups_ : ndarray of str
        The groups found; of several sensitive columns the intersections, "Female & Black".
    clients_ : ndarray of str
        The names of the clients.
    n_features_in_, feature_names_in_ : int, ndarray
        The columns of X; names only if X was a DataFrame with texts as column names.
    n_iter_, converged_, reason_ : int, bool, str
        Rounds used, whether they sufficed, and in words why training ended.
    history_ : DataFrame
        One row per round: loss, each D and its multiplier, step, residual, violation.
    constraints_ : DataFrame
        pair, class, D, epsilon, multiplier (for `lco` also client; for `st` the clients' mean). A
        method without a limit on D has the measured gap, and NaN otherwise. With `target_deo` by
        proxy, D is a difference of error rates and epsilon is the target.
    dp_ : dict or None
        With `dp_epsilon`: epsilon_spent, delta, releases and the noise of each.
    decide_at_ : float
        One model and two classes only: from which probability on ``classes_[1]`` is predicted.
    coef_, intercept_, encoded_names_ : ndarray
        Logistic regression with one model only. The coefficients belong to the encoded columns,
        named in `encoded_names_`: numbers are standardised, categories one-hot.
    terms_ : DataFrame
        Of ``lr`` and ``additive`` with one model: term (a column or a pair), value (a step, a
        category's value, a cell, or a number of ``lr``, standardised) and height, what it adds to
        the log-odds; low, high (the 95 % band of the model without the limit) and without_limit
        (its height), NaN where it is not known; importance, of the whole term, as in `plot`. Of
        several classes all but the first two for each class, such as ``height yes``.

    Notes
    -----
    X needs no preparation: numbers are standardised, with missing ones set to the mean and marked
    in an extra column; every other column is a category, one-hot. The sensitive feature is a
    feature of the model only if it is a column of X, too. Without `sensitive_features` there is no
    constraint, and a warning says so.

    Examples
    --------
    >>> from fairsilo import FedFairClassifier
    >>> from fairsilo.data import make_table
    >>> table = make_table(600, silos=3, bias=1.5, seed=1)
    >>> X, y = table.drop(columns=["label", "client"]), table["label"]
    >>> clf = FedFairClassifier(epsilon=0.05)
    >>> clf = clf.fit(X, y, sensitive_features=table["group"], clients=table["client"])
    >>> clf.constraints_[["pair", "class", "D"]].round(3)
          pair class     D
    0  g0 - g1     1 -0.05
    >>> bool(clf.score(X, y) > 0.75)
    True
    """

    epsilon: Any = None
    _: KW_ONLY
    method: str | Method = DEFAULT_METHOD.name
    after: str | None = None
    model: str | Callable[[int, int], Model] = "lr"
    hidden: Any = None
    penalty: str | float | None = None
    pairs: str | int | None = None
    solver: str | Solver | None = None
    estimator: str = "pooled"
    protected_class: Any = None
    groups: Any = None
    against: str = "pairs"
    pool: int | None = None
    notion: str | Notion = DEFAULT.name
    target_deo: float | None = None
    target_by: str = "proxy"
    target_confidence: float | None = None
    class_weight: Any = None
    decide_at: float | str | None = None
    local_epochs: int | None = None
    batch: int | None = None
    max_rounds: int | None = None
    early_stopping: bool = False
    random_state: Any = None
    dp_epsilon: float | None = None
    dp_delta: float = 1e-5
    dp_split: Any = (0.1, 0.75, 0.15)
    dp_clip: float = 1.0
    bounds: Any = None
    classes: Any = None
    client_names: Any = None
    maximum_weight: float | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
        clients: Any = None,
    ) -> Self:
        """Train on the rows of all clients.

        Parameters
        ----------
        X : DataFrame or array of shape (n_samples, n_features)
            Columns of any type; missing cells are allowed, infinite ones are not.
        y : array-like of shape (n_samples,)
            The classes, at least two.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight 3 counts as three rows, in the objective and in the limits; one of
            weight 0 is left out. None weighs all rows the same.
        sensitive_features : Series, DataFrame or array, default=None
            The group of every row; of several columns the intersections count.
        clients : array-like of shape (n_samples,), default=None
            Who holds each row; None is one client that holds all.

        Returns
        -------
        self : FedFairClassifier
            The fitted classifier.
        """
        rows = given(self, X, y, sensitive_features, clients, sample_weight)
        with as_value_errors():
            prepared, named = rows.prepare(), rows.compared.name
            fitted = train(rows.options, prepared, rows.classes, rows.mechanism, named)
            self._keep(fitted.prepared, fitted, rows.options)
        meant = fitted.trained.stopped or self.dp_ is not None
        if not self.converged_ and not meant:
            warnings.warn(
                f"{self.reason_}; raise max_rounds, try another solver or a larger epsilon",
                ConvergenceWarning,
                stacklevel=2,
            )
        for words in fitted.warnings:
            warnings.warn(words, FairSiloWarning, stacklevel=2)
        warn_of_seen(rows, fitted)
        return self

    def predict(
        self, X: Any, *, sensitive_features: Any = None, random_state: Any = None
    ) -> npt.NDArray[Any]:
        """Predict the class of every row.

        Parameters
        ----------
        X : DataFrame or array of shape (n_samples, n_features)
            The columns that `fit` saw. A new category counts as none of the known ones.
        sensitive_features : Series, DataFrame or array, default=None
            The group of every row: needed by `eo` and `ceo`, not used by the others.
        random_state : int or RandomState, default=None
            The seed of the draws of `eo` and `ceo`; None is that of the classifier.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Values of `classes_`.
        """
        x, s = self._rows(X, sensitive_features)
        seed = seed_of(random_state, default=self._kept.seed)
        return self.classes_[self._kept.committee().labels(x, s, seed)]

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Class probabilities, (n_samples, n_classes); parameters as for `predict`."""
        x, s = self._rows(X, sensitive_features)
        return self._kept.committee().probabilities(x, s)

    @available_if(_has_scores)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Floats:
        """The log-odds of ``classes_[1]``, (n_samples,), or the scores of several classes."""
        x, _ = self._rows(X, None)
        only = self._kept.plain()
        assert only is not None
        scores = scores_of(only.model, only.theta, x)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None
    ) -> float:
        """Return the accuracy on the given rows; parameters as for `predict`."""
        predicted = self.predict(X, sensitive_features=sensitive_features)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def to_onnx(self) -> bytes:
        """The content of an .onnx file: the columns of X in, class (as text) and probabilities out.

        For one model that decides alone, whose operations ONNX has.
        """
        check_is_fitted(self)
        with as_value_errors():
            return to_onnx(self._kept.saved())

    def _keep(self, prepared: Prepared, fitted: Fitted, options: Options) -> None:
        """Set the attributes that describe the fit."""
        self.clients_ = np.array(prepared.client_names, dtype=object)
        self.n_iter_ = fitted.trained.outcome.rounds
        self.converged_ = fitted.trained.outcome.status is Status.CONVERGED
        self.reason_ = fitted.reason
        self.history_ = fitted.history
        self.constraints_ = fitted.constraints
        self.dp_ = fitted.dp
        models = fitted.trained.predictors
        kept = Kept.of(prepared.encoder, models, options.model, options.method, options.seed)
        self._described, self._told = described(options, prepared, fitted), fitted.told
        self._keep_model(kept)

    def _keep_model(self, kept: Kept) -> None:
        """Set the model and its coefficients, or remove those of an earlier fit."""
        self.groups_ = np.array(kept.encoder.schema.groups, dtype=object)
        self.encoded_names_ = np.array(kept.encoder.feature_names, dtype=object)
        self._kept = kept
        for name in ("coef_", "intercept_", "terms_", "decide_at_"):
            self.__dict__.pop(name, None)
        only = kept.plain()
        if only and only.model.classes == 2:
            self.decide_at_ = float(only.cut)
        if only and only.model.linear:
            told = self._described.get("terms", ())
            self.terms_ = terms_of(kept.encoder, only.theta, only.model.outputs, told)
        if only and kept.model == "lr":
            self.intercept_, *rows = only.theta.reshape(-1, only.model.outputs)
            self.coef_ = np.transpose(rows)

    def _rows(self, X: Any, sensitive_features: Any) -> tuple[Table, Ints]:
        """Encode new rows and look up their groups."""
        check_is_fitted(self)
        frame = table_of(self, X, reset=False)
        groups = self._kept.groups(sensitive_features, len(frame))
        return self._kept.encode(frame), groups
