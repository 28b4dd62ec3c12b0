"""Long-term memory: `/memory`, its daily files, and its nightly distillation."""

REQUIRES = ("jobs",)
