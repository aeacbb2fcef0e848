"""Models of one's own as ONNX graphs: onnxruntime gives JAX's numbers, for any number of rows."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import nn

from fairsilo import FedFairClassifier
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.export.onnx import to_onnx
from fairsilo.model import MODELS, Model
from fairsilo.predictor import Plain
from fairsilo.run import Options, Saved
from tests.export.test_onnx import SAME, run, same_as_predict, trained

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"
Apply = Callable[[Any, Any], Any]
FEATURES = 3


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, FEATURES))


@pytest.fixture(scope="module")
def numbers() -> Saved:
    """A run whose features are three numbers, for others to put their model in."""
    x = rows(60)
    clf = FedFairClassifier(method="fedavg").fit(x, x[:, 0] + rows(60, seed=3)[:, 0] > 0)
    saved: Saved = clf._kept.saved()
    return saved


def exported(saved: Saved, apply: Apply, shape: Any, classes: int = 2) -> None:
    """Export a model of the given function, and compare it with JAX on many, one and no row."""

    def init(key: Any) -> Any:
        return jax.tree.map(jnp.zeros, shape, is_leaf=lambda one: isinstance(one, tuple))

    model = Model("own", FEATURES, classes, init, apply)
    plain = Plain(model, np.random.default_rng(1).normal(size=model.size))
    content = to_onnx(replace(saved, predictors=(plain,)))
    for n in (50, 1, 0):
        x = rows(n, seed=2)
        got = run(content, {f"x{k}": x[:, [k]] for k in range(FEATURES)})["probabilities"]
        scale = [(one.mean, one.scale) for one in saved.encoder.scalings]
        encoded = (x - [mean for mean, _ in scale]) / [size for _, size in scale]
        expected = plain.probabilities(encoded, np.zeros(n, np.int64))
        np.testing.assert_allclose(got, expected, atol=SAME, rtol=0)


def skip(params: Any, x: Any) -> Any:
    """A tanh network with a skip connection."""
    return jnp.tanh(x @ params["in"] + params["bias"]) @ params["out"] + x @ params["skip"]


def polynomial(weight: Any, x: Any) -> Any:
    """All products of two features, powers, and a constant."""
    i, j = np.triu_indices(FEATURES)
    ones = jnp.ones((x.shape[0], 1))
    return jnp.concatenate([ones, x[:, i] * x[:, j], x**3, jnp.abs(x) ** 1.5], axis=1) @ weight


@jax.custom_vjp
def double(x: Any) -> Any:
    return 2 * x


double.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))

MODELS_OF_OTHERS: dict[str, tuple[Apply, Any]] = {
    "skip": (skip, {"in": (3, 8), "bias": (8,), "out": (8, 1), "skip": (3, 1)}),
    "polynomial": (polynomial, (13, 1)),
    "bilinear": (lambda w, x: jnp.einsum("ni,ijk,nj->nk", x, w, x), (3, 3, 1)),
    "each row by itself": (lambda w, x: jax.vmap(lambda row: jnp.dot(row, w))(x)[:, None], (3,)),
    "transposed": (lambda w, x: (w.T @ x.T).T, (3, 1)),
    "columns": (lambda w, x: x[:, :1] * x[:, 1][:, None] + x[:, -1:] + x[:, 1:] @ w, (2, 1)),
    "outer products": (lambda w, x: (x[:, :, None] * x[:, None]).reshape(-1, 9) @ w, (9, 1)),
    "stacked": (lambda w, x: jnp.stack([x[:, 0], x[:, 2]], 1) @ w, (2, 1)),
    "tiled": (lambda w, x: jnp.tile(x, (1, 2)) @ w, (6, 1)),
    "gated": (lambda w, x: nn.glu(x @ w).sum(1, keepdims=True), (3, 4)),
    "attention": (
        lambda w, x: (nn.softmax(x[:, :, None] * x[:, None]) @ x[:, :, None])[..., 0] @ w, (3, 1)
    ),
    "normed": (
        lambda w, x: (x - x.mean(1, keepdims=True)) * jax.lax.rsqrt(x.var(1, keepdims=True)) @ w,
        (3, 1),
    ),
    "a factor beside a product": (lambda w, x: (x / 6.1 @ w) * 0.3, (3, 1)),
    "extremes": (lambda w, x: (x.max(1) - x.min(1) + jnp.prod(x, 1))[:, None] * w, (1,)),
    "steps": (
        lambda w, x: (jnp.floor(x) + jnp.ceil(x) + jnp.sign(x) + jax.lax.clamp(-1.0, x, 1.0)) @ w,
        (3, 1),
    ),
    "conditions": (
        lambda w, x: jnp.where((x > 0) & ~(x >= 1) | (x != 2) ^ (x <= 3), jnp.sin(x), 0.0) @ w,
        (3, 1),
    ),
    "in float32": (lambda w, x: (x.astype(jnp.float32) * 2).astype(w.dtype) @ w, (3, 1)),
    "functions inside": (lambda w, x: double(jax.checkpoint(jnp.cos)(x)) @ w, (3, 1)),
    "of the weights alone": (
        lambda w, x: x @ jnp.sort(w, axis=0) + jax.random.normal(jax.random.key(0), (1,)), (3, 1)
    ),
    "the same for all": (lambda w, x: jnp.zeros((x.shape[0], 1)) + w, (1,)),
}  # fmt: skip
UNITS = (
    "relu sigmoid softplus silu elu selu celu leaky_relu hard_tanh hard_sigmoid gelu log_softmax"
)


@pytest.mark.parametrize("name", MODELS_OF_OTHERS)
def test_a_model_of_ones_own(name: str, numbers: Saved) -> None:
    exported(numbers, *MODELS_OF_OTHERS[name])


@pytest.mark.parametrize("name", UNITS.split())
def test_units_of_networks(name: str, numbers: Saved) -> None:
    exported(numbers, lambda w, x: getattr(nn, name)(x) @ w, (3, 1))


def test_several_classes(numbers: Saved) -> None:
    names = ("a", "b", "c")
    schema = numbers.schema.model_copy(update={"classes": names})
    three = replace(numbers, schema=schema)
    exported(three, lambda w, x: nn.logsumexp(x, axis=1, keepdims=True) * w, (1, 3), classes=3)


def test_the_error_function_is_exported_in_single_precision(
    numbers: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.export.test_jaxpr.SAME", 1e-6)
    exported(numbers, lambda w, x: nn.gelu(x, approximate=False) @ w + jax.lax.erf(x) @ w, (3, 1))


REFUSED: dict[str, tuple[Apply, str]] = {
    "sort": (lambda w, x: jnp.sort(x, axis=1) @ w, "uses `sort`, for which there is no ONNX"),
    "scan": (lambda w, x: jax.lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c), x) @ w, "`scan`"),
    "bits": (lambda w, x: (x.astype(int) & 1) @ w, "`and` on whole numbers"),
    "look-up": (lambda w, x: w[(x[:, 0] > 0).astype(int)], "`gather`"),
    "one row of all": (lambda w, x: (x - x[:1]) @ w, "`gather` other than for columns"),
    "mean of all rows": (lambda w, x: (x - x.mean(0)) @ w, "computes with the number of rows"),
    "branch": (lambda w, x: x @ w if x.shape[0] > 3 else x @ w + 1, "any number of rows alike"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_onnx_has_no_operation_for_is_refused_by_name(name: str, numbers: Saved) -> None:
    apply, sentence = REFUSED[name]
    with pytest.raises(FairSiloError, match=sentence) as caught:
        exported(numbers, apply, (3, 1))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_the_example_from_its_run_folder(classes: int, tmp_path: Path) -> None:
    MODELS.add("bilinear", runpy.run_path(str(EXAMPLE))["bilinear"])
    frame = make_table(300, classes=classes, missing=0.1, seed=8)
    frame.to_csv(tmp_path / "train.csv", index=False)
    options = Options(
        str(tmp_path / "train.csv"), label="label", protected_class="1", group="group",
        client="client", model="bilinear", solver="lbfgs", rounds=6,
    )  # fmt: skip
    trained(tmp_path / "run", options)
    same_as_predict(tmp_path / "run", tmp_path / "train.csv", frame)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::fairsilo.errors.FairSiloWarning")
def test_an_object_in_the_classifier() -> None:
    bilinear = runpy.run_path(str(EXAMPLE))["bilinear"]
    x, group = rows(200), np.arange(200) % 2
    who = {"sensitive_features": group, "clients": np.arange(200) % 3}
    y = x[:, 0] * x[:, 1] > 0
    clf = FedFairClassifier(model=bilinear, solver="lbfgs", max_rounds=9).fit(x, y, **who)
    outputs = run(clf.to_onnx(), {f"x{k}": x[:, [k]] for k in range(FEATURES)})
    np.testing.assert_allclose(outputs["probabilities"], clf.predict_proba(x), atol=SAME, rtol=0)
    assert outputs["label"].tolist() == [str(one) for one in clf.predict(x)]
    drawing = FedFairClassifier(method="eo", max_rounds=2).fit(x, y, **who)
    with pytest.raises(ValueError, match="draws its answers at random"):
        drawing.to_onnx()
