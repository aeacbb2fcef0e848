"""FairSilo: one classifier, several organisations, no rows exchanged, fair between groups."""

import os
from typing import TYPE_CHECKING

# Before NumPy and SciPy load their BLAS: its matrices are small here, and threads inside a product
# wait for each other longer than they work (50 clients on a busy 2-core machine: 17 s, not 1.1 s).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
__all__ = ["FedFairClassifier", "__version__", "audit", "load"]

if TYPE_CHECKING:
    from fairsilo.auditor import audit
    from fairsilo.estimator import FedFairClassifier, load
else:

    def __getattr__(name: str) -> object:
        """Load the estimator when it is asked for: `import fairsilo` alone stays light."""
        if name in ("FedFairClassifier", "load"):
            from fairsilo import estimator

            return getattr(estimator, name)
        if name == "audit":
            from fairsilo.auditor import audit

            return audit
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
