"""Ends a drive's daemon at any instruction, and looks at what is left; see scripts/crash-test."""
