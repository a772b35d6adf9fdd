"""Engines: what answers for a judge. One file an engine, one protocol (``base``)."""
