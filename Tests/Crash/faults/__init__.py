"""Lets every call of a drive's daemon fail in turn; see scripts/fault-test."""
