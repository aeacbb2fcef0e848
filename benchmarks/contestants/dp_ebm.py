"""InterpretML's boosting under differential privacy; on one core.

    python dp_ebm.py FOLDER

FOLDER has train and test as Parquet files, the features, y and more, and asked.json: the seed, the
settings of every budget, the declared ranges of numbers. Writes FOLDER/found.npz: for each budget
the probabilities of the test rows, and the CPU seconds that they took.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from interpret.privacy import DPExplainableBoostingClassifier


def main(folder: Path) -> None:
    """Train with every budget."""
    train, test = (pd.read_parquet(folder / f"{part}.parquet") for part in ("train", "test"))
    asked = json.loads((folder / "asked.json").read_text())
    bounds = {name: tuple(ends) for name, ends in asked["bounds"].items()}
    features = [name for name in train if name not in ("y", "group", "client")]
    kinds = ["continuous" if name in bounds else "nominal" for name in features]
    found = {}
    for budget, settings in asked["settings"].items():
        start = time.process_time()
        model = DPExplainableBoostingClassifier(
            feature_names=features, feature_types=kinds, privacy_bounds=bounds, n_jobs=1,
            epsilon=float(budget), delta=1e-5, random_state=asked["seed"], **settings,
        )  # fmt: skip
        model.fit(train[features], train["y"])
        found[budget] = model.predict_proba(test[features])[:, 1]
        found[f"seconds/{budget}"] = np.array(time.process_time() - start)
    np.savez_compressed(folder / "found.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
