"""Inputs: the items and gold of each test set."""
