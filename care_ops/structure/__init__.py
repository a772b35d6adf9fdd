"""Sparse + low-rank structure of the judges' precision (paper, Algorithm 1), and what is read from it."""
