"""Synchronization of a data folder with a store in S3, Google Cloud Storage, Azure, or another folder.

Modules other than ``address`` are imported only if ``data`` in care.yaml is a URL.
"""
