"""Names and phrases for readers who do not know the paper."""

from dataclasses import replace

from fairsilo.fairness import NOTIONS, Notion
from fairsilo.method import DEFAULT, METHODS, Method

MODELS = {
    "lr": "logistic regression",
    "mlp": "a small neural network",
    "additive": "an additive model",
}
SOLVERS = {
    "newton": "Newton steps (second-order sums, few rounds)",
    "lbfgs": "L-BFGS steps (gradients only)",
    "own": "the method's own steps",
    "agp": "alternating gradient projection, the method of the FedFair paper (many rounds)",
}
ESTIMATORS = {
    "pooled": "over the union of all rows",
    "mean": "as the average of the clients' own gaps, with their signs",
    "local": "in every client on its own",
}
AIMS = {
    "class": "Among people who truly are \u201c{protected}\u201d, the groups {who}",
    "every class": "Among the people of every true class, the groups {who}",
    "claim": "When \u201c{protected}\u201d is predicted, the groups {who}",
    "whole": "On the whole, the groups {who}",
    "some": "The groups {who}",
    "alone": "The groups {who}",
}
"""Beginnings of sentences, by `Facts.compares`: which groups are compared on which rows."""
RATES = {
    "class": "Recognised among those who truly are \u201c{protected}\u201d",
    "every class": "Recognised among those who truly are of a class",
    "claim": "Predicted to be \u201c{protected}\u201d",
    "whole": "Predicted right",
    "some": "Predicted right in the classes that are compared",
    "alone": "Recognised among those who truly are \u201c{protected}\u201d",
}
"""Titles of the groups' rates."""
WHOSE = {
    "class": "Test rows whose true class is \u201c{protected}\u201d",
    "every class": "Test rows by true class",
    "claim": "All test rows; recognised means predicted \u201c{protected}\u201d",
    "whole": "All test rows; recognised means predicted right",
    "some": "Test rows of the classes that are compared",
    "alone": "Test rows whose true class is \u201c{protected}\u201d",
}
"""The rows that the rates of a table refer to."""
LOSSES = {
    "class": "Gap between the groups\u2019 average losses (DGEO)",
    "every class": "Gap between the groups\u2019 average losses (DGEO)",
    "claim": "Gap between the groups\u2019 average losses, were everybody \u201c{protected}\u201d",
    "whole": "Gap between the groups\u2019 average losses on the whole",
    "some": "Gap between the groups\u2019 average losses in the classes that are compared",
    "alone": "Average loss of each group",
}
"""Titles of what is limited."""
OPTIONS = {
    "data": "the table that was trained on",
    "label": "the column to predict",
    "protected_class": "the class within which the groups are compared",
    "group": "the column that says who belongs to which group",
    "groups": "the groups that are compared",
    "drop_group": "whether the model may not see the group",
    "category": "columns that are categories, whatever they look like",
    "number": "columns that are numbers",
    "drop": "columns that are no features",
    "features": "the only columns that are features; none named: all",
    "groupless": "what becomes of rows without a group",
    "sep": "what separates the fields of a CSV file",
    "decimal": "the decimal sign of a CSV file",
    "thousands": "the sign between thousands of a CSV file",
    "client": "the column that says who holds a row",
    "client_names": "the clients, as they were declared",
    "clients": "among how many clients the rows were dealt out",
    "partition": "how the rows were dealt out to the clients",
    "alpha": "how even a Dirichlet partition is",
    "split": "the column that says which rows are for testing",
    "test_fraction": "the share of rows kept for testing",
    "seed": "the seed of every random draw",
    "method": "how fairness enters the training",
    "after": "what eo, ceo and thresholds repair; by themselves fedavg",
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
    "target_confidence": "with which confidence it is promised for the population",
    "weight": "the column with the rows' weights",
    "maximum_weight": "the largest weight, under differential privacy",
    "class_weight": "what a row of a class weighs in the objective",
    "hidden": "sizes of the network's hidden layers",
    "local_epochs": "epochs that each client trains by itself in a round; by itself one step",
    "batch": "rows of a step in local epochs; by itself all of a client\u2019s",
    "decide_at": "from which probability on the second class is predicted; by itself 0.5",
    "early_stopping": "whether training stops where rows set aside have the lowest loss",
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


def method_of(name: str) -> Method:
    """The method of this name; of one that is not installed here only the name is known."""
    known = METHODS.get(name)
    return known or replace(DEFAULT, name=name, title=name, words=name)


def notion_of(name: str) -> Notion:
    """The notion of this name; of one that is not installed here only the name is known."""
    return NOTIONS.get(name) or Notion(name, name, lambda *_: ())


def name_of(table: dict[str, str], key: object) -> str:
    """The plain name, or the key itself if there is none."""
    return table.get(str(key), str(key))
