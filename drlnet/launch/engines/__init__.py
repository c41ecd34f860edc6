"""What starts a plan's processes on hosts: a file for each, with the script that would do it."""
