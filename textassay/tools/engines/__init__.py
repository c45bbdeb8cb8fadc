"""Engines that run transformer models: PyTorch, onnxruntime, and tables of static vectors."""
