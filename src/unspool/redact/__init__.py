"""Secrets in text: what they look like, and what stands in their place. Pure."""
