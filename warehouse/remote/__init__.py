"""Data folders that are copies of a store in S3, Google Cloud Storage, Azure, or another folder.

Other modules than ``address`` are imported only if ``data`` in care.yaml is a URL.
"""
