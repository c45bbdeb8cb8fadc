"""Graphs of agents.

Nodes with typed inputs and outputs, wiring that is checked when built, and the run of a graph.
"""

from textassay.runtime.graph.graph import Graph, Node, each, fixed

__all__ = ["Graph", "Node", "each", "fixed"]
