"""Programs that contributors run: they keep prose, the stub and requirements in order."""
