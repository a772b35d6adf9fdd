"""Scoring of items by judges: inference, score parts, and scores in the warehouse."""
