"""Sparse + low-rank structure of the judges' precision matrix (paper, Algorithm 1), its factors and its bounds."""
