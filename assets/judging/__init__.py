"""Scoring of items by judges: inference, stored scores, and their loading into the warehouse."""
