"""Scores of a run in the formats of Inspect, MLflow, Langfuse and promptfoo.

`export_scores` writes a file, `send_scores` sends to a server. Neither needs a package of theirs. A
missing score is never a number there, and outcome, signature and calibrated values go as metadata.
"""

from textassay.exporting.files import FORMATS, Format, export_scores
from textassay.exporting.sending import Server, send_scores

__all__ = ["FORMATS", "Format", "Server", "export_scores", "send_scores"]
