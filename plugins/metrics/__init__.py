"""Metrics for Prometheus, which count the events of a process."""
