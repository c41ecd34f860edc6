"""The command line: one file per command. The only place that catches and prints errors."""
