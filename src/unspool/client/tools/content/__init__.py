"""Pure conversions between bytes, texts and what a model sees: no file, clock or network."""
