"""The long-term memory of an audience: `MEMORY.md`, a few dated lines that a person can read, edit,
approve and undo, and the distillation of daily files into them."""
