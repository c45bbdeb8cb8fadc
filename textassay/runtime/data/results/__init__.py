"""Reads result files of other evaluation tools as examples.

Their texts become outputs to judge, their scores `metrics`.
"""

from textassay.runtime.data.results.reading import FORMATS, Imported, read_results

__all__ = ["FORMATS", "Imported", "read_results"]
