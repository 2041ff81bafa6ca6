"""What `make demo` runs: two models served, real files classified, one table of measurements."""
