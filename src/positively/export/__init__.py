"""A run for other programs: what is written here opens without this package."""

from positively.export.onnx import OnnxFile, export_onnx
from positively.export.transformers import export_transformers

__all__ = ["OnnxFile", "export_onnx", "export_transformers"]
