"""Measurements of the product, which imports nothing from here: ``make bench`` lists them."""
