"""Tests of how Parley is installed, and of systems that are not Linux."""
