"""How fast the memory of each model of GPU is read, in bytes a second, as its maker says. Pure.

What a model can do for inference is above all this, and it is what tells a model from the next one of the same memory.
"""

_GB = 10**9
_BANDWIDTH = {
    "Tesla T4": 320 * _GB,
    "L4": 300 * _GB,
    "A10": 600 * _GB,
    "A10G": 600 * _GB,
    "A40": 696 * _GB,
    "L40": 864 * _GB,
    "L40S": 864 * _GB,
    "RTX A6000": 768 * _GB,
    "RTX 6000 Ada Generation": 960 * _GB,
    "GeForce RTX 3090": 936 * _GB,
    "GeForce RTX 4090": 1008 * _GB,
    "GeForce RTX 5090": 1792 * _GB,
    "RTX PRO 6000 Blackwell Server Edition": 1597 * _GB,
    "RTX PRO 6000 Blackwell Workstation Edition": 1792 * _GB,
    "A100-PCIE-40GB": 1555 * _GB,
    "A100-SXM4-40GB": 1555 * _GB,
    "A100 80GB PCIe": 1935 * _GB,
    "A100-SXM4-80GB": 2039 * _GB,
    "H100 PCIe": 2039 * _GB,
    "H100 NVL": 3938 * _GB,
    "H100 80GB HBM3": 3350 * _GB,
    "H200": 4800 * _GB,
    "H200 NVL": 4800 * _GB,
    "B200": 8000 * _GB,
}


def bandwidth_of(model: str) -> int | None:
    """None where the model is not known, or is a part of one: nothing can be said of its speed."""
    return _BANDWIDTH.get(model.removeprefix("NVIDIA "))
