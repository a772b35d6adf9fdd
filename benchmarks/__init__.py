"""Measurements of CARE; ``make bench`` lists them."""
