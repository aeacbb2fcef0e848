"""Tables, tests and pages from the finished parts, without computing anything."""

import pandas as pd

from fairsilo.data import write_atomic
from fairsilo.experiment.choice import SPLITS
from fairsilo.experiment.markdown import results_page
from fairsilo.experiment.paired import paired_tests, seeds_table
from fairsilo.experiment.paper_page import reproduce_page
from fairsilo.experiment.results import Results
from fairsilo.experiment.tables import build, verdict
from fairsilo.experiment.theorems_words import THEOREMS


def as_csv(frame: pd.DataFrame) -> str:
    """A table as CSV, with booleans as true and false."""
    spelled = frame.map(lambda value: str(value).lower() if isinstance(value, bool) else value)
    return spelled.to_csv(index=False)


def publish(results: Results, path: str) -> list[tuple[str, pd.DataFrame]]:
    """Write tables.csv, seeds.csv, tests.csv and the pages; returns the verdicts."""
    folder = results.folder
    tables, tests = build(results), paired_tests(results)
    write_atomic(folder / "tables.csv", as_csv(tables).encode())
    write_atomic(folder / "tests.csv", as_csv(tests).encode())
    write_atomic(folder / "seeds.csv", _short(seeds_table(results)).encode())
    checked = folder / THEOREMS
    held = pd.read_csv(checked) if checked.is_file() else None
    verdicts = [
        (f"{name}, {selection}", found)
        for name in ("fast", "agp")
        for selection in SPLITS
        if len(found := verdict(tables, name, selection))
    ]
    page = reproduce_page(results, tables, verdicts, tests, held)
    write_atomic(folder / "report.html", page.encode())
    if not results.own:
        write_atomic(folder / "README.md", results_page(results, tables, verdicts, tests).encode())
    return [(name, found) for name, found in verdicts if name.startswith(path)]


def _short(frame: pd.DataFrame) -> str:
    return frame.to_csv(index=False, float_format="%.6g")
