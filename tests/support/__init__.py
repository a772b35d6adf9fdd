"""Helpers of tests and benchmarks: workspaces, servers, faults, hostile input, panels with known truth.

This package holds helpers only. Tests, and modules that import tests or benchmarks, belong elsewhere.
"""
