"""Graphs of agents: typed nodes, wiring that is checked when built, and their execution."""

from textassay.runtime.graph.graph import Graph, Node, each, fixed

__all__ = ["Graph", "Node", "each", "fixed"]
