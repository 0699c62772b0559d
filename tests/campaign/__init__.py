"""The campaign that tries to break the promises: `python -m tests.campaign`."""
