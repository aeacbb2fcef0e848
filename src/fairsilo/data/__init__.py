"""Tables, schema, encoder, the three data sets of the paper and a generator.

Nothing here knows about models or fairness; the other packages see numpy arrays only.
"""

from fairsilo.data.datasets import DATASETS, DataSet, load, schema_of
from fairsilo.data.encoder import Encoder, EncoderSums
from fairsilo.data.fetch import CheckResult, check, fetch
from fairsilo.data.files import write_atomic
from fairsilo.data.groups import grouped_by, intersections, pool
from fairsilo.data.sample import Sample, build_labels
from fairsilo.data.schema import Category, Number, Schema, infer_schema, read_schema
from fairsilo.data.synthetic import make_table
from fairsilo.data.table import CLIENT_COLUMN, read_table

__all__ = [
    "CLIENT_COLUMN",
    "DATASETS",
    "Category",
    "CheckResult",
    "DataSet",
    "Encoder",
    "EncoderSums",
    "Number",
    "Sample",
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
