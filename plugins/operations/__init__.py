"""Operations: check an installation, save it and bring it back, upgrade it, run it as a service,
and look at its logs."""
