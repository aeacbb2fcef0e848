"""The scikit-learn estimator: fit, predict, score, with fairlearn's word `sensitive_features`."""

from fairsilo.estimator.classifier import FedFairClassifier

__all__ = ["FedFairClassifier"]
