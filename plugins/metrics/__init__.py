"""Metrics for Prometheus, which count what happens in a process."""
