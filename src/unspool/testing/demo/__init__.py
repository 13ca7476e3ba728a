"""A config folder to try everything on: `write.write(folder)` makes it. The other modules tell its stories."""
