"""The page of reproduce: both tables, both figures and the theorems, as self-contained HTML."""

from collections.abc import Sequence

import pandas as pd

from fairsilo.experiment.choice import WORDS
from fairsilo.experiment.figures import curve
from fairsilo.experiment.grid import OWN_DATA, TITLES, Cell
from fairsilo.experiment.page_parts import (
    ENDINGS,
    LINES,
    METHOD_WORDS,
    PAYS,
    REPAIRS,
    SURE,
    Row,
    about,
    curves,
    how,
    methods_explained,
    pays_table,
    scatter_of,
    seeds_text,
    settings_table,
    spread,
    sure_dots,
    sure_table,
    training_lines,
    training_table,
)
from fairsilo.experiment.results import Results
from fairsilo.experiment.summary import compare_summary, words
from fairsilo.experiment.supported import CLOSING, CLOSING_HEADS, TEST, closing, sentences
from fairsilo.experiment.tables import METRICS, PATHS, counts, mark, of_path, strictly
from fairsilo.experiment.theorems_words import (
    THEOREMS_WORDS,
    TRAINED,
    bounds_found,
    trained_found,
)
from fairsilo.report.blocks import Column, details, grid, paragraph, table, table_page
from fairsilo.report.html import Child, Html

TABLES = (
    ("Table 1", "iid", ": clients are alike"),
    ("Table 2", "non-iid", ": clients are different (label-skewed)"),
    ("All methods", OWN_DATA, ""),
)
NAMES = {"fast": "fast solvers (Newton, L-BFGS)", "agp": "the paper's solver (AGP)"}
Verdicts = Sequence[tuple[str, pd.DataFrame]]


def reproduce_page(
    results: Results,
    tables: pd.DataFrame,
    verdicts: Verdicts,
    tests: pd.DataFrame,
    theorems: pd.DataFrame | None,
) -> str:
    """Both tables, both figures and the theorems; of an own table what the paper has of its own."""
    own = results.own
    paths = [path for path in PATHS if tables["solver"].isin(PATHS[path]).any()]
    sections: list[tuple[str, list[Child]]] = [
        ("Does FedFair come out best?", _verdicts(verdicts, own)),
        ("What is supported", [*_supported(tests, own), *_closing(results)]),
        ("The methods", [methods_explained(_explained(results)), paragraph(ENDINGS)]),
    ]
    for title, setting, clients in TABLES:
        part = tables[tables["setting"] == setting]
        if len(part):
            sections.append((f"{title}{clients}", _tables(part, title, paths, results)))
    for number, title, panel, caption in (
        ("Figure 1: ", "accuracy against fairness", _panel, _FIGURE_1),
        ("Figure 2: ", "the effect of epsilon", _curves, _FIGURE_2),
    ):
        whole = title.capitalize() if own else f"{number}{title}"
        for path in paths:
            cells = [cell for cell in results.cells if results.has(path, cell, "fedfair")]
            if panels := [panel(results, cell, path) for cell in cells]:
                name = whole if path == paths[0] else f"{whole.partition(':')[0]}, {path.upper()}"
                sections.append((name, [paragraph(f"By {NAMES[path]}. {caption}"), grid(*panels)]))
    sections += _models(results, paths)
    if theorems is not None:
        found: list[Child] = [paragraph(THEOREMS_WORDS), _bounds(theorems)]
        found.append(paragraph(" ".join(bounds_found(theorems))))
        if (trained := results.folder / TRAINED).is_file():
            found.append(paragraph(trained_found(pd.read_csv(trained)).replace("**", "")))
        sections.append(("The theorems, where they could fail", found))
    seeds = ("Seeds", seeds_text(int(tables["seeds"].max())))
    sections.append(("Settings", [settings_table([seeds, *_runs(results)])]))
    header: list[Child] = [how(results.cells[0])]
    if own:
        header = [*map(about, results.cells), *header]
    name = f"{results.cells[0].dataset}: all methods" if own else "The paper, reproduced"
    return table_page(name, sections, lead=_lead(verdicts, own), header=header)


def _explained(results: Results) -> list[str]:
    """The methods that some cell has."""
    found = {TITLES[method] for cell in results.cells for method in (*cell.methods, "constant")}
    return [name for name in METHOD_WORDS if name in found]


def _supported(tests: pd.DataFrame, own: bool) -> list[Child]:
    """Against each rival, by path and selection; the first is in sight."""
    blocks: list[Child] = [paragraph(TEST)]
    if tests.empty:
        same = "Nothing is tested: there is no rival, or every seed has the same test rows."
        return [paragraph(same)] if own else blocks
    # First the one selection in which no test row has a say.
    by = tests.assign(first=tests["selection"] != "per-seed").sort_values("first", kind="stable")
    for (path, selection), part in by.groupby(["path", "selection"], sort=False):
        heading = (
            f"{NAMES[str(path)]}, settings chosen {WORDS[str(selection)]}, "
            f"{part['seeds'].max()} seeds"
        )
        told = [[one] for one in sentences(tests, str(path), str(selection))]
        blocks += _shown(heading, table(["FedFair and"], told, sortable=False), len(blocks) == 1)
    return blocks


def _closing(results: Results) -> list[Child]:
    words, rows = closing(results)
    heads = [Column(head.capitalize(), "figure") for head in CLOSING_HEADS[1:]]
    if not rows:
        return []
    return [paragraph(f"{CLOSING} {words}"), table(["Method", *heads], [[*row] for row in rows])]


def _models(results: Results, paths: list[str]) -> list[tuple[str, list[Child]]]:
    """Sections about the models of Tables 1 and 2: intervals, groups and clients, training.

    Settings are those chosen on the test rows; the second path is collapsed.
    """
    sure: list[Child] = [paragraph(SURE)]
    pays: list[Child] = [paragraph(PAYS)]
    went: list[Child] = [paragraph(f"{LINES} {REPAIRS}")]
    for path in paths:
        lines = {
            cell: compare_summary(
                parts, {method: results.optimum(path, cell, method) for method in parts}
            )
            .query("chosen_on != 'validation'")
            .to_dict("records")
            for cell in results.cells
            if "fedfair" in (parts := _parts(results, cell, path))
        }
        names = {cell: [str(row["method"]) for row in rows] for cell, rows in lines.items()}
        dots = grid(
            *(sure_dots(cell.title, "fairness", rows, names[cell]) for cell, rows in lines.items())
        )
        charts = [
            grid(*training_lines(rows, names[cell], cell.title)) for cell, rows in lines.items()
        ]
        by_data: dict[str, list[Row]] = {}
        for cell, rows in lines.items():
            by_data.setdefault(cell.data, []).extend({**row, "cell": cell.title} for row in rows)
        every = [row for rows in by_data.values() for row in rows]
        heads = {"cell": "Cell", "method": "Method"}
        # One table per data set, since their groups differ.
        paid = [pays_table(rows, heads) for rows in by_data.values()]
        by = f"By {NAMES[path]}"
        if path == paths[0]:
            sure += [paragraph(f"{by}: fairness."), dots]
            pays += [paragraph(f"{by}."), *paid]
            went += [paragraph(f"{by}."), *charts]
        else:
            sure.append(details(f"{by}: fairness", dots))
            pays.append(details(by, *paid))
            went.append(details(by, *charts))
        sure.append(details(f"{by}: accuracy and fairness in figures", sure_table(every, heads)))
        went.append(details(f"{by}: rounds and bytes", training_table(every, heads)))
    return [("How sure are we?", sure), ("Who pays for it?", pays), ("How training went", went)]


def _lead(verdicts: Verdicts, own: bool) -> str:
    said = []
    best = {name: counts(found)[0] for name, found in verdicts if len(found)}
    for name, found in verdicts:
        path, _, selection = name.partition(", ")
        near = counts(found)[1]
        if len(found) and selection == "test":
            honest = best.get(f"{path}, per-seed")
            said.append(
                f"By {NAMES[path]}, FedFair has the best harmonic mean, or is within 0.005 of it, "
                f"in {best[name]} of {len(found)} cells with settings chosen on test rows, as in "
                "the paper"
                + ("" if honest is None else f", in {honest} chosen on each seed's validation rows")
                + (f", and is within 0.02 of the paper's or above it in {near}" * (not own) + ".")
            )
    return " ".join(said) or "Not enough is computed yet to compare FedFair with other methods."


def _verdicts(verdicts: Verdicts, own: bool) -> list[Child]:
    beside = "." if own else ", and with its own number in the paper."
    blocks: list[Child] = [
        paragraph(
            "A cell is a data set, a split between clients and a model. FedFair is compared with "
            f"the methods that did not collapse{beside}"
        )
    ]
    for name, found in verdicts:
        if found.empty:
            continue
        path, _, selection = name.partition(", ")
        rows = [
            [
                Cell(row["dataset"], row["model"], row["setting"]).title,
                row["fedfair"],
                row["paper"],
                f"{row['best_other']} ({row['best_other_hm']:.3f})",
                "yes" if row["best_or_close"] else "no",
                "yes" if row["near_paper"] else "no",
            ]
            for row in found.to_dict("records")
        ]
        columns: list[Column | str] = [
            "Cell",
            Column("FedFair", "number", 3),
            Column("In the paper", "number", 2),
            "Best other",
            "Best or within 0.005",
            "Within 0.02 of the paper or above",
        ]
        if own:  # nothing of the paper
            columns, rows = [*columns[:2], *columns[3:5]], [[*one[:2], *one[3:5]] for one in rows]
        shown = table(columns, rows, dense=True)
        heading = f"{NAMES[path]}, settings chosen {WORDS[selection]}"
        best, near = counts(found)
        count = (
            f"{heading}: best or close in {best}, strictly best in {strictly(found)}"
            + (f", near the paper in {near}" * (not own))
            + f" of {len(found)}"
        )
        blocks += _shown(count, shown, len(blocks) == 1)
    return blocks


def _tables(part: pd.DataFrame, title: str, paths: list[str], results: Results) -> list[Child]:
    over = (
        "Mean and standard deviation over the seeds' data sets (over all clients' models for ST, "
        "EO and CEO)"
    )
    beside = (
        ", the paper's number in brackets. Difference: our harmonic mean less the paper's, marked "
        "where it is more than 0.02."
    )
    blocks: list[Child] = [paragraph(f"{over}{'.' if results.own else beside}")]
    for selection, chosen in WORDS.items():
        for path in paths:
            rows = of_path(part, path)
            rows = rows[rows["selection"] == selection]
            if not rows["solver"].isin(PATHS[path]).any():
                continue
            shown = _table(rows.to_dict("records"), results)
            heading = f"{title} by {NAMES[path]}, chosen {chosen}"
            blocks += _shown(heading, shown, len(blocks) == 1)
    return blocks


def _shown(heading: str, content: Html, first: bool) -> list[Child]:
    """The first of several tables is in sight, the others are folded away."""
    title = f"{heading[0].upper()}{heading[1:]}."
    return [paragraph(title), content] if first else [details(heading, content)]


def _table(rows: list[Row], results: Results) -> Html:
    order = list(TITLES.values())
    cells = [(cell.dataset, cell.model) for cell in results.cells]

    def place(row: Row) -> tuple[int, int]:
        return cells.index((row["dataset"], row["model"])), order.index(row["method"])

    columns: list[Column | str] = [
        "Data, model",
        "Method",
        Column("Setting", "figure"),
        *(Column(name.replace("_", " ").capitalize(), "figure") for name in METRICS),
        Column("Difference", "figure"),
        Column("Balanced accuracy", "number", 3),
        "Training",
    ]
    told: list[list[Child]] = [_row(row) for row in sorted(rows, key=place)]
    if results.own:
        columns.pop(6)
        told = [[*one[:6], *one[7:]] for one in told]
    return table(columns, told, dense=True)


def _row(row: Row) -> list[Child]:
    gap = row["ours_harmonic_mean"] - float(row["harmonic_mean"] or "nan")
    lost = int(row["settings_diverged"])
    name = row["dataset"] if row["setting"] == OWN_DATA else row["dataset"].upper()
    return [
        f"{name}, {row['model'].upper()}",
        row["method"],
        _setting(row["ours_opt"], row["opt"]),
        *(spread(row[f"ours_{name}"], row[f"ours_{name}_std"], row[name]) for name in METRICS),
        "" if pd.isna(gap) else f"{gap:+.3f}{mark(gap)}",
        row["ours_balanced_accuracy"],
        words(row["ending"], row["collapsed"], row["loss_gap"], lost),
    ]


def _setting(ours: float | None, paper: float | None) -> str:
    text = "" if ours is None or pd.isna(ours) else f"{ours:g}"
    return text if paper is None or pd.isna(paper) else f"{text} ({paper:g})"


def _parts(results: Results, cell: Cell, path: str) -> dict[str, pd.DataFrame]:
    return {
        method: results.models(path, cell, method)
        for method in (*cell.methods, "constant")
        if results.has(path, cell, method)
    }


def _panel(results: Results, cell: Cell, path: str) -> Html:
    return scatter_of(cell.title, _parts(results, cell, path))


def _curves(results: Results, cell: Cell, path: str) -> Html:
    """Fairness and accuracy of FedFair against epsilon."""
    points = curve(results.models(path, cell, "fedfair"), cell)
    flat = pd.DataFrame(
        {
            name + end: points[name][kind]
            for name in ("fairness", "accuracy")
            for kind, end in (("mean", ""), ("std", "_std"))
        }
    )
    return curves(cell.title, points["setting"].tolist(), flat)


def _bounds(theorems: pd.DataFrame) -> Html:
    columns: list[Column | str] = [
        "Theta, sizes",
        Column("Clients", "count"),
        Column("Promised", "percent"),
        Column("Variance / (\N{GREEK SMALL LETTER SIGMA}\N{SUPERSCRIPT TWO}/N)", "number", 3),
        Column("FedFair: radius", "number", 3),
        Column("held", "percent"),
        Column("within", "percent"),
        Column("held for 0", "percent"),
        Column("One client: radius", "number", 3),
        Column("held", "percent"),
        Column("within", "percent"),
    ]
    rows = [
        [
            row["scenario"],
            int(row["clients"]),
            row["promised"],
            row["variance"] / row["sigma_avg2_over_n"],
            *(row[f"{what}_fedfair"] for what in ("radius", "held", "within")),
            row["held_zero"],
            *(row[f"{what}_lco"] for what in ("radius", "held", "within")),
        ]
        for row in theorems.to_dict("records")
    ]
    return table(columns, rows, dense=True)


def _runs(results: Results) -> list[tuple[str, str]]:
    rows = []
    for path, name in NAMES.items():
        made = results.made(path)
        if made.parts:
            rows.append((f"{made.parts} parts by {name}", "; ".join(made.machines)))
        rows += [
            (f"{run['parts']} parts in {run['minutes']:.1f} minutes", run["command"])
            for run in results.runs(path)
        ]
    return rows


_FIGURE_1 = (
    "The five best settings of each method on the first data set (seed 0). Up and to the right "
    "is better. Points can coincide: a click on a name hides that method."
)
_FIGURE_2 = "Mean and standard deviation over the seeds' data sets, on test rows."
