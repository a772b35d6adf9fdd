"""Helpers of tests and benchmarks: workspaces, servers, faults, hostile input, panels with known truth.

This package has only helpers. It has no tests, and its modules do not import tests or benchmarks.
"""
