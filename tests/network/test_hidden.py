"""AF's adversary sees no column that names the group: of DRUG, over silos as in simulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fairsilo.data import DATASETS, build_labels, load
from fairsilo.network.federation_file import FILE, FederationFile
from fairsilo.network.member import Member
from fairsilo.network.ops.draft import draft_table, draft_values
from fairsilo.network.ops.keys import make_key
from fairsilo.partition import TEST
from fairsilo.question.agnostic import seen_columns
from fairsilo.run import Options, execute
from fairsilo.run.problem import plan
from fairsilo.run.split import share_out
from tests.network.silos import Town, TownTransport, confirm, train_with

SILOS = 3


def drug_town(folder: Path, options: Options) -> Town:
    """DRUG dealt to silos as the simulation deals it to clients, the test rows in turn."""
    table, drafted = draft_table(options, None)
    frame = load("drug", data_dir=options.data_dir)
    y, _ = build_labels(frame, table)
    client, _ = share_out(frame, y, replace(drafted, clients=SILOS), 0)
    frame["part"] = np.where(client == TEST, "test", "train")
    owner = np.where(client == TEST, np.arange(len(client)) % SILOS, client)
    frame["client"] = [f"silo{one}" for one in owner]
    names = [f"silo{i}" for i in range(SILOS)]
    members = [
        Member(name=name, public_key=make_key(folder / name / "node.key", name)) for name in names
    ]
    values = {**draft_values(drafted, table), "split": "part"}
    agreed = FederationFile(silos=tuple(members), secure_aggregation=False, **values)
    for name in names:
        own = frame[frame["client"] == name].drop(columns="client")
        own.to_csv(folder / name / "table.csv", index=False)
        (folder / name / FILE).write_text(agreed.text)
        (folder / name / "silo.toml").write_text(
            f'name = "{name}"\nfederation = "{FILE}"\ndata = "table.csv"\nplain = true\n'
        )
        confirm(folder / name / "silo.toml")
    return Town(folder, agreed, frame)


def test_the_adversary_does_not_see_ethnicity(tmp_path: Path, raw_data_dir: Path) -> None:
    options = Options(data="drug", method="af", data_dir=raw_data_dir, rounds=32, epsilon=0.01)
    town = drug_town(tmp_path, options)
    hidden = town.agreed.hidden
    assert hidden == DATASETS["drug"].group_features == ("ethnicity",)
    assert "ethnicity" in town.agreed.table.columns, "a feature of the model"
    run, _, engine = train_with(town, TownTransport(town), tmp_path / "journal")
    other = execute(replace(options, clients=SILOS, engine="clientwise"), baseline=False)
    seen = seen_columns(plan(other.options, other.prepared))
    names = other.prepared.encoder.feature_names
    assert sorted({*names} - {names[i] for i in seen}) == ["ethnicity"]
    (spread,) = [entry.vector for entry in engine.entries if entry.kind == "spread"]
    assert spread is not None
    assert len(spread) == 1 + 3 * len(seen) == 1 + 3 * 11
    # The adversary plays: the weights of the rows are not even, and the model is the same.
    np.testing.assert_allclose(run.trained.outcome.theta, other.trained.outcome.theta, atol=1e-9)
    assert any(entry.kind == "attack" for entry in engine.entries)
