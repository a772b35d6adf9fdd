"""Moments of a panel up to order three, and what is done about scores that are missing.

``state`` is the sum that adds up, ``kernels`` its compiled loops, ``sharded`` runs it over a file,
``missing`` replaces pairwise-complete sums by expectation-maximisation.
"""
