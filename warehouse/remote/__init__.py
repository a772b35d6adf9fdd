"""Data folders that are copies of a store in S3, Google Cloud Storage, Azure, or another folder.

Only ``address`` is imported unless care.yaml gives an address as ``data``.
"""
