"""Models of the transformers library in this process.

Decoder-only models, and encoder-decoder models such as T5.
"""

from textassay.runtime.backends.transformers.model import TransformersModel

__all__ = ["TransformersModel"]
