"""What a fleet of shards would do that is larger than this machine: a simulation fed with what was measured here."""
