"""Object stores: the client, its check, and what it does when requests fail."""
