"""Blocks of one-hot columns as a graph: categories, steps of numbers, cells of pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairsilo.data.binned import Binned, places_of
from fairsilo.data.hot import width_of
from fairsilo.data.schema import Category, Number, Schema
from fairsilo.data.steps import Pair, Steps
from fairsilo.export.graph import DOUBLE, INT64, Graph


def in_steps(graph: Graph, schema: Schema, binned: Binned) -> str:
    """The encoded rows of an additive model."""
    steps, rare = iter(binned.steps), iter(binned.rare)
    places: list[tuple[str, int]] = []
    for feature in schema.features:
        if isinstance(feature, Number):
            own = next(steps)
            places.append((_step(graph, feature.name, own), own.width))
            continue
        pooled, width = next(rare), width_of(feature)
        if width:
            new = places_of(width, pooled)
            kept = int(new.max()) + 1
            places.append((category_place(graph, feature, [*new[:-1], kept]), kept))
    main = list(places)
    places += [(_cell(graph, pair, main), pair.width) for pair in binned.pairs]
    return graph.node("Concat", *(one_hot(graph, *one) for one in places), axis=1)


def one_hot(graph: Graph, place: str, width: int) -> str:
    """Zeros and a one; an index past the last column gives zeros in every column."""
    off_on = graph.constant(np.array([0.0, 1.0], np.float32))
    hot = graph.node("OneHot", place, graph.constant(np.array([width])), off_on)
    return graph.node("Cast", graph.node("Flatten", hot, axis=1), to=DOUBLE)


def category_place(graph: Graph, feature: Category, new: Sequence[int]) -> str:
    """The column of a category's value; `new` has the place of every column, and of none last."""
    size, width = len(feature.values), width_of(feature)
    other = size + feature.missing if feature.other else width
    places = {"": size if feature.missing else other}
    places |= {value: k for k, value in enumerate(feature.values)}
    return graph.node(
        "LabelEncoder",
        feature.name,
        keys_strings=list(places),
        values_int64s=[int(new[k]) for k in places.values()],
        default_int64=int(new[other]),
    )


def _step(graph: Graph, name: str, steps: Steps) -> str:
    """How many edges a number has reached; a missing one is in the last step, or in none."""
    edges = graph.constant(np.array([*steps.edges, np.inf]))
    reached = graph.node("Cast", graph.node("GreaterOrEqual", name, edges), to=INT64)
    step = graph.node("ReduceSum", reached, graph.constant(np.array([1])), keepdims=1)
    missing = graph.constant(np.array([[len(steps.edges) + 1]]))
    return graph.node("Where", graph.node("IsNaN", name), missing, step)


def _cell(graph: Graph, pair: Pair, places: Sequence[tuple[str, int]]) -> str:
    """The cell of a pair; none where one of the two has no column."""
    (first, _), (second, _) = places[pair.first], places[pair.second]
    # Beyond every cell: a row without a column in one of the two.
    rows = np.array([*pair.rows, pair.shape[0]]) * pair.shape[1]
    columns = np.array([*pair.columns, pair.width])
    parts = [
        graph.node("Gather", graph.constant(own), at)
        for own, at in ((rows, first), (columns, second))
    ]
    return graph.node("Add", *parts)
