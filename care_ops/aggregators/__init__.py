"""Aggregators, which combine several scores of an item into one."""
