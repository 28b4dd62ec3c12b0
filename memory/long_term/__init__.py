"""The long-term memory of an audience: `MEMORY.md`, a few dated lines that a person can read, edit,
approve and take back, and how the daily files are distilled into them."""
