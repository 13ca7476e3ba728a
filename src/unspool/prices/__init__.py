"""What was billed, once each, and what it cost. Pure: lines and numbers in, numbers out."""
