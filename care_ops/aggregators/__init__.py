"""Aggregators: many scores of an item to one."""
