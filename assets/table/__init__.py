"""Fits, rates and labels of a table of scores, without a workspace."""
