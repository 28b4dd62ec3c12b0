"""The assembled application: settings, access, intake, commands, turns, delivery, assembly."""
