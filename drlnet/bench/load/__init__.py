"""`drlnet bench load`: latency over offered load, to the knee."""
