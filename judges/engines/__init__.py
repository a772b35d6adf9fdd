"""Engines that compute the scores of judges."""
