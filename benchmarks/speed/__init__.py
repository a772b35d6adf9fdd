"""Time and memory, compared with other libraries and earlier commits."""
