"""Export a run for other programs, which do not need this package."""

from positively.export.int8 import Int8File, export_int8
from positively.export.onnx import OnnxFile, export_onnx
from positively.export.tagger import TaggerFolder, export_tagger

__all__ = [
    "Int8File",
    "OnnxFile",
    "TaggerFolder",
    "export_int8",
    "export_onnx",
    "export_tagger",
]
