"""Whole programs on a folder of tables: scikit-learn, a PyTorch loop, our estimator, a generator.

python whole_table.py sklearn|torch:PASSES|estimator|make:ROWS|wide:ROWS FOLDER [CATEGORY ...]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

WIDTHS = (9, 5, 500, 220, 18, 9, 40, 30)
"""Values of the made-up table's categories; six numbers make it 14 columns."""
WIDE = (5000,)
"""Of a table with one wide category."""


def read(folder: Path) -> pd.DataFrame:
    paths = sorted(folder.glob("*.parquet")) or sorted(folder.glob("*.csv"))
    load = pd.read_parquet if paths[0].suffix == ".parquet" else pd.read_csv
    return pd.concat([load(path) for path in paths], ignore_index=True)


def encoded(frame: pd.DataFrame, categories: list[str]):  # noqa: ANN201
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = [name for name in frame.columns if name not in (*categories, "PINCP")]
    transform = make_column_transformer(
        (OneHotEncoder(), categories), (StandardScaler(), numbers), sparse_threshold=1.0
    )
    return transform.fit_transform(frame), frame["PINCP"].to_numpy()


def sklearn(folder: Path, categories: list[str]) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    x, y = encoded(read(folder), categories)
    x, test_x, y, test_y = train_test_split(x, y, test_size=0.2, random_state=0)
    model = LogisticRegression(max_iter=1000).fit(x, y)
    print("accuracy", model.score(test_x, test_y))


def torch(folder: Path, categories: list[str], passes: int) -> None:
    import torch as pytorch

    x, y = encoded(read(folder), categories)
    sparse = x.tocoo()
    rows = pytorch.sparse_coo_tensor(
        np.stack([sparse.row, sparse.col]), sparse.data.astype(np.float32), x.shape
    ).to_sparse_csr()
    target = pytorch.tensor(y.astype(np.float32))[:, None]
    first = pytorch.nn.Parameter(pytorch.randn(x.shape[1], 8) / 10)
    rest = pytorch.nn.Sequential(
        pytorch.nn.ReLU(), pytorch.nn.Linear(8, 4), pytorch.nn.ReLU(), pytorch.nn.Linear(4, 1)
    )
    optimizer = pytorch.optim.SGD([first, *rest.parameters()], lr=0.5)
    for _ in range(passes):
        optimizer.zero_grad()
        loss = pytorch.nn.functional.binary_cross_entropy_with_logits(rest(rows @ first), target)
        loss.backward()
        optimizer.step()
    print("loss", float(loss))


def estimator(folder: Path, categories: list[str]) -> None:
    from fairsilo import FedFairClassifier

    frame = read(folder)
    for name in categories:
        frame[name] = frame[name].astype("category")
    y, group = frame.pop("PINCP"), frame["SEX"]
    model = FedFairClassifier(epsilon=0.05).fit(frame, y, sensitive_features=group)
    print("converged", model.converged_)


def make(folder: Path, rows: int, widths: tuple[int, ...] = WIDTHS) -> None:
    """Parquet files of a million rows at most, one per client; the group is a category, too."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    effects = [rng.normal(0, 0.5, width) for width in widths]
    size = max(min(rows // 4, 1_000_000), 1)
    for k in range(rows // size):
        codes = [rng.integers(0, width, size, np.int16) for width in widths]
        numbers = rng.standard_normal((6, size), np.float32)
        group = rng.integers(0, 2, size, np.int8)
        score = sum(effect[code] for effect, code in zip(effects, codes, strict=True))
        y = score + numbers.sum(axis=0) / 3 + 0.5 * group + rng.logistic(size=size) > 0
        table = {f"n{i}": one for i, one in enumerate(numbers)}
        for j, code in enumerate(codes):
            names = [f"c{value}" for value in range(widths[j])]
            table[f"c{j}"] = pd.Categorical.from_codes(code, names)
        table |= {"g": pd.Categorical.from_codes(group, ["a", "b"]), "y": y.astype(np.int8)}
        pd.DataFrame(table).to_parquet(folder / f"client{k:02}.parquet", index=False)


if __name__ == "__main__":
    way, folder, *categories = sys.argv[1:]
    way, _, count = way.partition(":")
    if way in ("torch", "make", "wide"):
        {
            "torch": lambda: torch(Path(folder), categories, int(count)),
            "make": lambda: make(Path(folder), int(count)),
            "wide": lambda: make(Path(folder), int(count), WIDE),
        }[way]()
    else:
        {"sklearn": sklearn, "estimator": estimator}[way](Path(folder), categories)
