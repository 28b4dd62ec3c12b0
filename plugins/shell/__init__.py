"""Commands: the tool `shell`, and `/shell`, in a sandbox (bubblewrap). `box` is the sandbox."""
