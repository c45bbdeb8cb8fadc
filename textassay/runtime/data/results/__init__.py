"""Result files of other evaluation tools as examples.

Their texts to judge, their scores as `metrics`.
"""

from textassay.runtime.data.results.reading import FORMATS, Imported, read_results

__all__ = ["FORMATS", "Imported", "read_results"]
