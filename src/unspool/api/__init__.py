"""The Messages API over HTTP: request in, typed events out."""
