"""An ONNX graph while it is put together."""

import itertools
from typing import Any

import numpy as np

DOUBLE = 11
"""TensorProto.DOUBLE of the file format."""
INT64 = 7
"""TensorProto.INT64."""


class Graph:
    """Collects nodes and constants; outputs get names that no column has."""

    def __init__(self, helper: Any, taken: set[str]) -> None:
        self.helper = helper
        self.taken = taken
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def free(self, name: str) -> str:
        """The name, with a number appended if it is taken."""
        names = itertools.chain([name], (f"{name}_{k}" for k in itertools.count(1)))
        found = next(one for one in names if one not in self.taken)
        self.taken.add(found)
        return found

    def constant(self, value: Any) -> str:
        """Add a constant (floats as double, integers as int64, texts as they are); its name."""
        from onnx import numpy_helper

        name = self.free("constant")
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add an operator with one output; returns the output's name."""
        output = self.free(name or operator.lower())
        domain = "ai.onnx.ml" if operator == "LabelEncoder" else ""
        self.nodes.append(
            self.helper.make_node(operator, list(inputs), [output], domain=domain, **attributes)
        )
        return output
