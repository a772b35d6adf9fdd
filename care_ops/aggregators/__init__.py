"""Aggregators: methods that combine several scores of an item into one score."""
