"""A data folder that is a copy of a store: S3, Google Cloud Storage, Azure, or another folder.

Only ``address`` is imported unless care.yaml gives an address as ``data``.
"""
