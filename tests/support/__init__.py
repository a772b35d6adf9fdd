"""What tests and benchmarks share: workspaces made on the spot, servers, tiny models, panels with known truth.

Belongs here: helpers without a test. Belongs elsewhere: tests, or anything that imports tests or benchmarks.
"""
