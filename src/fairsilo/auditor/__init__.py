"""Audit any model: DGEO and DEO across silos, from sums only, with confidence intervals.

options    the options of `fairsilo audit`
rows       the audited rows, their silos, the compared groups and classes
answers    the model's predictions: from a run, columns of the table, or probabilities
onnx       predictions of an ONNX graph
document   the sum of the silos' evidence and the findings: audit.json and audit.html
api        fairsilo.audit, for models in Python
"""

from fairsilo.auditor.api import Audit, audit
from fairsilo.auditor.document import execute, write
from fairsilo.auditor.options import AuditOptions

__all__ = ["Audit", "AuditOptions", "audit", "execute", "write"]
