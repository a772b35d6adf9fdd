"""Ours against rivals, one file a rival or a subject: ``make bench``.

Every figure is CPU time, the median over repeats, ours and the rival's in one run on one BLAS thread.
"""
