"""Audit any model: DGEO and DEO across silos, from sums only, with confidence intervals.

options    what `fairsilo audit` can be told
rows       which rows, who holds them, which groups are compared in which classes
answers    what the model says of them: a run, columns of the table, probabilities
onnx       ... or an ONNX graph
document   every silo's evidence, added, and what follows: audit.json and audit.html
api        fairsilo.audit, for models that live in Python
"""

from fairsilo.auditor.api import Audit, audit
from fairsilo.auditor.document import execute, write
from fairsilo.auditor.options import AuditOptions

__all__ = ["Audit", "AuditOptions", "audit", "execute", "write"]
