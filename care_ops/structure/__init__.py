"""Sparse + low-rank structure of the judges' precision (paper, Algorithm 1), its factors and its bounds."""
