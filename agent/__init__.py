"""Thinking and acting: the loop, the prompt, the tools and the models."""
