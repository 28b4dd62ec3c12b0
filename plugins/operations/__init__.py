"""Operations: check an installation, back it up and restore it, upgrade it, run it as a service,
and show its logs."""
