"""Engines that run transformer encoders.

PyTorch with transformers, or onnxruntime with tokenizers.
"""
