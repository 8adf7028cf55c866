MACHINES = "moorage_machines"
"""A machine came, went or changed its key: the tunnel's ends and the engines are others."""
