"""Assignment of rows to clients: IID, label-skewed, Dirichlet, or by a column of the table."""

from fairsilo.partition.column import by_column, marked_test, split_column
from fairsilo.partition.draw import KINDS, TEST, UNUSED, Kind, draw

__all__ = ["KINDS", "TEST", "UNUSED", "Kind", "by_column", "draw", "marked_test", "split_column"]
