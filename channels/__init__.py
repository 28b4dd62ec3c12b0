"""One file or package for each messaging platform: its shape <-> our shape."""
