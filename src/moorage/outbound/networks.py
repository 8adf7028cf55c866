"""The networks that are not public: one list for the firewall, for what is fetched, and for the doctor. Pure."""

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
METADATA_SERVICE = "169.254.169.254"
"""Where clouds tell a virtual machine its secrets."""

NOT_PUBLIC = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",  # looks public, but is a cloud's service for its own virtual machines
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
GLOBAL_IPV6 = "2000::/3"
"""Nothing outside it is public."""
NOT_PUBLIC_IPV6 = ("2001::/23", "2001:db8::/32", "3fff::/20")
"""Within `GLOBAL_IPV6`."""
