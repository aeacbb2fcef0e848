"""Assignment of rows to clients: IID, label-skewed, Dirichlet, or by a column of the table."""

from fairsilo.partition.column import by_column, split_column
from fairsilo.partition.draw import KINDS, TEST, UNUSED, Kind, draw

__all__ = ["KINDS", "TEST", "UNUSED", "Kind", "by_column", "draw", "split_column"]
