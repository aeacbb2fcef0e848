"""Names and phrases for readers who do not know the paper."""

from __future__ import annotations

METHODS = {
    "fedfair": "FedFair: all clients train one model together, under a common fairness limit",
    "lco": "Locally constrained: one model, and a fairness limit on every client's own rows",
    "fedavg": "Federated training without any fairness limit",
    "st": "Separate training: every client trains alone on its own rows, under its own limit",
    "af": "AgnosticFair: rows are reweighed against the worst mixture of clients, under a limit",
    "eo": "Equalised odds: answers of a trained model are changed afterwards until rates agree",
    "ceo": "Calibrated equalised odds: answers are withheld afterwards until rates agree",
}
MODELS = {"lr": "logistic regression", "mlp": "a small neural network"}
SOLVERS = {
    "newton": "Newton steps (second-order sums, few rounds)",
    "lbfgs": "L-BFGS steps (gradients only)",
    "own": "the method's own steps",
    "agp": "alternating gradient projection, the method of the FedFair paper (many rounds)",
}
ESTIMATORS = {
    "pooled": "over the union of all rows",
    "mean": "as the average of the clients' own gaps",
    "local": "in every client on its own",
}
NOTIONS = {
    "equal-opportunity": "groups fare alike among those who truly are of a protected class",
    "equalized-odds": "groups fare alike among the people of every class",
    "demographic-parity": "the protected class is predicted equally readily for all groups",
    "accuracy-parity": "groups fare alike on the whole",
    "bounded-loss": "no group's average loss is above the limit",
}
NOTION_LIMITS = {
    "demographic-parity": "Who deserves an answer does not count in demographic parity: it is to "
    "be given to all groups equally often, rightly or wrongly.",
    "accuracy-parity": "The groups are compared on the whole: gaps within single classes can "
    "remain, and cancel each other out.",
    "bounded-loss": "Every group is limited by itself: the groups may be treated differently below "
    "the limit.",
}
"""What a notion of fairness leaves out; equal opportunity leaves out classes."""
AIMS = {
    "equal-opportunity": "Among people who truly are \u201c{protected}\u201d, the groups {who}",
    "equalized-odds": "Among the people of every true class, the groups {who}",
    "demographic-parity": "When \u201c{protected}\u201d is predicted, the groups {who}",
    "accuracy-parity": "On the whole, the groups {who}",
    "bounded-loss": "The groups {who}",
}
"""Beginnings of sentences: which groups are compared on which rows."""
RATES = {
    "equal-opportunity": "Recognised among those who truly are \u201c{protected}\u201d",
    "equalized-odds": "Recognised among those who truly are of a class",
    "demographic-parity": "Predicted to be \u201c{protected}\u201d",
    "accuracy-parity": "Predicted right",
    "bounded-loss": "Recognised among those who truly are \u201c{protected}\u201d",
}
"""Titles of the groups' rates, by notion."""
WHOSE = {
    "equal-opportunity": "Test rows whose true class is \u201c{protected}\u201d",
    "equalized-odds": "Test rows by true class",
    "demographic-parity": "All test rows; recognised means predicted \u201c{protected}\u201d",
    "accuracy-parity": "All test rows; recognised means predicted right",
    "bounded-loss": "Test rows whose true class is \u201c{protected}\u201d",
}
"""The rows that the rates of a table refer to, by notion."""
OPTIONS = {
    "data": "the table that was trained on",
    "label": "the column to predict",
    "protected_class": "the class within which the groups are compared",
    "group": "the column that says who belongs to which group",
    "groups": "the groups that are compared",
    "drop_group": "whether the model may not see the group",
    "client": "the column that says who holds a row",
    "clients": "among how many clients the rows were dealt out",
    "partition": "how the rows were dealt out to the clients",
    "alpha": "how even a Dirichlet partition is",
    "split": "the column that says which rows are for testing",
    "test_fraction": "the share of rows kept for testing",
    "seed": "the seed of every random draw",
    "method": "how fairness enters the training",
    "after": "what eo and ceo repair; by themselves fedavg",
    "model": "what is trained",
    "solver": "how the optimum is searched",
    "estimator": "how the gap is measured over the clients",
    "against": "whether groups are compared two by two or each with the rest",
    "pool": "below how many training rows in a protected class groups are pooled",
    "notion": "what is to be equal between the groups",
    "epsilon": "the limit on the gap",
    "epsilons": "limits of single pairs",
    "target_deo": "the limit on the difference of rates, instead of one on losses",
    "target_by": "how that limit is met",
    "rounds": "the most rounds that were allowed",
    "engine": "where the sums were computed",
    "variant": "which encoding of a named data set",
    "min_cell": "clients with fewer rows in a compared group take no part with that group",
    "dp_epsilon": "the budget of differential privacy: the most that one row may show",
    "dp_delta": "the chance that differential privacy allows for showing more",
    "dp_split": "shares of that budget: encoder, objective, constraint",
    "dp_clip": "the longest gradient of one row under differential privacy",
    "dp_noise": "whether clients share the noise (secure aggregation) or each adds all of it",
}


def name_of(table: dict[str, str], key: object) -> str:
    """The plain name, or the key itself if there is none."""
    return table.get(str(key), str(key))
