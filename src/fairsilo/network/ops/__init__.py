"""Operating a federation: keys, working folders, processes, the silo's own program."""
