"""Records of runs and measurements: their class, their files, the folders of runs."""
