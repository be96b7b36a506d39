"""The processes: one supervisor that binds the port, workers that serve, what they share, what they log."""
