"""Scoring of items by judges: inference, storage of scores, and loading of scores into the warehouse."""
