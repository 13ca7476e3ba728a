"""The lake: segments of many devices become Delta tables, each line once, whatever is killed, late or bad."""
