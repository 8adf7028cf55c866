MACHINES = "moorage_machines"
"""A machine came, went or changed its key: the tunnel's ends and the engines are others."""
MACHINE_VOIDS = "moorage_machine_voids"
"""What a machine served does not count."""
