"""Sparse + low-rank structure of the judges' precision (paper, Algorithm 1), and what is read from it.

``program`` solves for S and L with a certificate, ``conic`` does so in cvxpy and under constraints, both with the
losses of ``losses``; ``factors`` reads the factors of L and says which one is quality, ``views`` cuts the judges into
three groups, ``bounds`` has the paper's theorems as numbers.
"""
