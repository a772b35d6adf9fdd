"""Fits, rates of systems, and labels for a table of scores, without a workspace."""
