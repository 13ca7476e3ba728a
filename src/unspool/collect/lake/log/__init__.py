"""Reads and continues the logs of the tables with few requests: transactions, copies of logs, recent commits."""
