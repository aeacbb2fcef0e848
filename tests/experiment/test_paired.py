"""The paired test against SciPy's and by hand, and what the page makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fairsilo.experiment.choice import FOLD_SPLITS, best_setting, chosen, settings_by_seed
from fairsilo.experiment.grid import find
from fairsilo.experiment.paired import corrected, holm, paired_tests, seeds_table
from fairsilo.experiment.results import Results
from fairsilo.experiment.supported import markdown, sentences
from tests.experiment.parts import part

D = np.array([0.03, 0.01, 0.02, -0.01, 0.04])


def test_without_overlap_it_is_the_paired_t_test() -> None:
    mean, low, high, p = corrected(D, 0.0)
    plain = stats.ttest_1samp(D, 0.0)
    assert (mean, p) == pytest.approx((D.mean(), plain.pvalue))
    assert (low, high) == pytest.approx(tuple(plain.confidence_interval(0.95)))


def test_overlap_widens_it_as_nadeau_and_bengio_say() -> None:
    mean, low, high, p = corrected(D, 0.25)
    # sqrt(0.2 + 0.25) * 0.019235 = 0.012903; t(4, 0.975) = 2.776445
    assert mean == pytest.approx(0.018)
    assert (high - low) / 2 == pytest.approx(2.776445 * 0.012903, rel=1e-4)
    assert p == pytest.approx(2 * stats.t.sf(0.018 / 0.012903, 4), rel=1e-3)


def test_correlated_seeds_need_the_correction() -> None:
    """No difference, and seeds that share 1/8 of the variance: 0.125 / (0.125 + 1) of it."""
    rng, share = np.random.default_rng(0), 0.125
    d = rng.normal(size=(2_000, 1)) * np.sqrt(share) + rng.normal(size=(2_000, 20))
    plain = np.mean([corrected(one, 0.0)[3] < 0.05 for one in d])
    wider = np.mean([corrected(one, share)[3] < 0.05 for one in d])
    assert plain > 0.2
    assert 0.035 < wider < 0.065


def test_equal_seeds_are_no_division_by_zero() -> None:
    assert corrected(np.zeros(5), 0.1) == (0.0, 0.0, 0.0, 1.0)
    assert np.isnan(corrected(np.full(5, 0.1), 0.1)[1:]).all()
    assert np.isnan(corrected(np.ones(1), 0.1)[3])


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1, never falling.
    np.testing.assert_allclose(holm(np.array([0.03, 0.01, 0.04, 0.02])), [0.06, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1, 1])


def test_every_seed_its_own_setting_and_folds_for_the_first_five() -> None:
    table = part(
        {
            (setting, seed, split): (0.8, 0.6 + 0.1 * ((setting == 0.1) == (seed == good)))
            for good, split in ((0, "test"), (1, "validation"))
            for setting in (0.1, 0.2)
            for seed in (0, 1)
        }
    )
    assert settings_by_seed(table, "per-seed").to_dict() == {0: 0.2, 1: 0.1}
    models = chosen(table, "per-seed")
    assert models.set_index("seed")["setting"].to_dict() == {0: 0.2, 1: 0.1}
    assert set(models["split"]) == {"test"}
    folds = part(
        {
            (setting, seed, split): (0.8, 0.5 + (setting == 0.1) * (split == "fold 3") * 0.4)
            for setting in (0.1, 0.2)
            for seed in (0, 7)
            for split in ("test", *FOLD_SPLITS)
        }
    )
    assert best_setting(folds, "cv") == 0.1
    assert chosen(folds, "cv")["seed"].unique().tolist() == [0]  # seed 7 is not cross-validated


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """FedFair 0.02 above FedAvg, like LCO; ST has collapsed."""
    made, cell = Results(tmp_path), find("compas-lr-iid")
    rng = np.random.default_rng(0)
    keys = [(seed, split) for seed in range(20) for split in ("test", "validation")]
    noise = {key: rng.normal(0, 0.01, 3) for key in keys}
    for place, (method, shift) in enumerate((("fedfair", 0.02), ("fedavg", 0.0), ("lco", 0.02))):
        figures = {
            (setting, *key): (0.7 + shift + noise[key][place] * 0.2, 0.9)
            for key in keys
            for setting in ((0.0,) if method == "fedavg" else (0.1, 0.2))
        }
        made.write("fast", cell, method, True, part(figures), 1.0, 20)
    flat = part({(s, *key): (0.9, 1.0) for key in keys for s in (0.1, 0.2)})
    made.write("fast", cell, "st", True, flat.assign(balanced_accuracy=0.5), 1.0, 20)
    return made


def test_the_page_says_what_is_supported(results: Results) -> None:
    tests = paired_tests(results)
    assert set(tests["selection"]) == {"test", "validation", "per-seed"}
    assert (tests["seeds"] == 20).all()
    found = tests[tests["selection"] == "validation"].set_index("rival")
    assert found["finding"].to_dict() == {"FedAvg": "better", "LCO": "open", "ST": "collapsed"}
    assert found["low"]["FedAvg"] > 0
    assert np.isnan(found["p_holm"]["ST"])
    said = " ".join(sentences(tests, "fast", "validation"))
    assert "FedFair beats FedAvg in 1 of 1 cells: COMPAS (IID), LR (+0.0" in said
    assert "FedFair does not beat LCO in any of 1 cells (differences " in said
    assert "Nothing is known of FedFair against ST" in said
    page = markdown(results, tests)
    assert "| fast | on validation rows | 1 / 0 / 0 / 0 | 0 / 0 / 0 / 1 | 0 / 0 / 1 / 0 |" in page


def test_one_line_for_each_seed_method_and_setting(results: Results) -> None:
    lines = seeds_table(results)
    assert lines.groupby("method").size().to_dict() == {
        "FedAvg": 20, "FedFair": 40, "LCO": 40, "ST": 40
    }  # fmt: skip
    assert not lines.duplicated(["method", "seed", "opt"]).any()
    own = results.models("fast", find("compas-lr-iid"), "fedfair")
    one = own[(own["seed"] == 3) & (own["setting"] == 0.2)].set_index("split")["harmonic_mean"]
    line = lines[(lines["method"] == "FedFair") & (lines["seed"] == 3) & (lines["opt"] == 0.2)]
    assert line["harmonic_mean"].item() == one["test"]
    assert line["validation_harmonic_mean"].item() == one["validation"]
