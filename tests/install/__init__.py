"""Tests of the installation of Parley, and of systems other than Linux."""
