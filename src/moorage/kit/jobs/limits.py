MOST_MEMORY_BYTES = 2 * 2**30
"""Of one job."""
