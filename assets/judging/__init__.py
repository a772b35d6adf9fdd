"""Judges score items: inference, its parts, and the slices of scores in the warehouse."""
