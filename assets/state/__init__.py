"""The workspace as it stands: what is missing, the database made anew, what is deleted, the nightly summary."""
