"""The scikit-learn estimator: fit, predict, score, with fairlearn's word `sensitive_features`."""

from fairsilo.estimator.classifier import FedFairClassifier
from fairsilo.estimator.saved import load

__all__ = ["FedFairClassifier", "load"]
