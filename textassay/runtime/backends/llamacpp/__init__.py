"""Local models through llama.cpp.

`library.py` is the only file that imports llama_cpp, on first use.
"""

from textassay.runtime.backends.llamacpp.model import LlamaCppModel

__all__ = ["LlamaCppModel"]
