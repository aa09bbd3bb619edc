"""Many runs in parallel: local processes, Ray, sweeps and reproductions."""
