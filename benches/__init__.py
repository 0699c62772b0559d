"""What dochistory costs, beside what else could do its job. `make bench` runs all of it."""
