"""An own table that is studied as the paper's are: what must be known of it beforehand."""

from __future__ import annotations

from dataclasses import replace

from fairsilo.experiment.cell import Draw, check_measurable, hold_out, prepare_cell, refused
from fairsilo.experiment.grid import Cell, Study
from fairsilo.run.made import data_digest


def studied(cell: Cell, seeds: int, validation: bool) -> tuple[Cell, dict[str, str]]:
    """The cell with what its rows say; and the methods that are left out, each with the reason."""
    assert cell.own is not None
    draws = [Draw(seed, "test", prepare_cell(cell, seed, None)) for seed in range(seeds)]
    held = [Draw(one.seed, "validation", hold_out(one.prepared, one.seed)) for one in draws]
    check_measurable([*draws, *(held if validation else ())])
    why = {name: text for name in cell.methods if (text := refused(cell, name, draws[0]))}
    first, files = draws[0].prepared, (cell.data, cell.own.schema)
    study = Study(
        digest=" ".join(data_digest(str(one)) or "" for one in files if one is not None),
        classes=len(first.schema.classes),
        test_share=len(first.test_y) / first.federation.rows if cell.own.split is None else None,
        left_out=tuple(why),
    )
    return replace(cell, study=study), why
