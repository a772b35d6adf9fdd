"""Moments of a panel up to order three, and what is done about scores that are missing."""
