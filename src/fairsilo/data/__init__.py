"""Tables, schema, encoder, the three data sets of the paper and a generator.

Nothing here knows about models or fairness; the other packages see numpy arrays only.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "CLIENT_COLUMN",
    "DATASETS",
    "Category",
    "CheckResult",
    "DataSet",
    "Encoder",
    "EncoderSums",
    "Number",
    "Schema",
    "build_labels",
    "check",
    "fetch",
    "grouped_by",
    "infer_schema",
    "intersections",
    "load",
    "make_table",
    "pool",
    "read_schema",
    "read_table",
    "schema_of",
    "write_atomic",
]

if TYPE_CHECKING:
    from fairsilo.data.datasets import DATASETS, DataSet, load, schema_of
    from fairsilo.data.download import CheckResult, check, fetch
    from fairsilo.data.encoder import Encoder, EncoderSums
    from fairsilo.data.files import write_atomic
    from fairsilo.data.groups import grouped_by, intersections, pool
    from fairsilo.data.infer import infer_schema
    from fairsilo.data.sample import build_labels
    from fairsilo.data.schema import Category, Number, Schema, read_schema
    from fairsilo.data.synthetic import make_table
    from fairsilo.data.table import CLIENT_COLUMN, read_table
else:
    HOMES = {
        "datasets": ("DATASETS", "DataSet", "load", "schema_of"),
        "download": ("CheckResult", "check", "fetch"),
        "encoder": ("Encoder", "EncoderSums"),
        "files": ("write_atomic",),
        "groups": ("grouped_by", "intersections", "pool"),
        "infer": ("infer_schema",),
        "sample": ("build_labels",),
        "schema": ("Category", "Number", "Schema", "read_schema"),
        "synthetic": ("make_table",),
        "table": ("CLIENT_COLUMN", "read_table"),
    }

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

    def __getattr__(name: str) -> object:
        """Import a name's module on first use: most messages to a silo need no pandas."""
        for module, names in HOMES.items():
            if name in names:
                return getattr(import_module(f"fairsilo.data.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
