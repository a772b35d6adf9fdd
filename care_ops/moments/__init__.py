"""Moments of a panel up to order three, and conditional means of missing scores."""
