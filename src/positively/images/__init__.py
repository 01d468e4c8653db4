"""Files, bytes and pictures in memory → pixels."""
