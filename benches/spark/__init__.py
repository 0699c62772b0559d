"""Figures of the Spark side: `python -m benches.spark`. Every job runs in a process and a Spark session of its own."""
