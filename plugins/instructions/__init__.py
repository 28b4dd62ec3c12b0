"""Standing instructions: what a person ordered holds until they revoke it."""
