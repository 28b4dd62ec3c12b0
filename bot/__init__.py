"""The assembled application: settings, access, router, sessions, delivery, assembly."""
