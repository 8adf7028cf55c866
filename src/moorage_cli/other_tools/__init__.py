"""What people wrote for `docker run` and for compose, in Moorage's terms."""
