"""Measures cloud mounts beside each other and beside the local file system."""
