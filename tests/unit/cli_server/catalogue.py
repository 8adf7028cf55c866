"""What can be deployed, and on what."""

TEMPLATE = {
    "name": "vllm",
    "title": "vLLM",
    "summary": "Chat under load",
    "kinds": ["chat"],
    "formats": ["safetensors"],
    "precisions": ["bf16"],
    "runs_without_gpu": False,
    "example": "hf:Qwen/Qwen2.5-7B-Instruct",
    "instance_type": "l4-24gb",
    "price_per_hour_microusd": 800_000,
}


MODEL_PLAN = {
    "ok": True,
    "reason": None,
    "message": "Each replica needs 31.6 GB. It fits on l40s-48gb.",
    "model": {
        "id": "hf:Qwen/Qwen2.5-7B-Instruct",
        "parameters": 7_615_616_512,
        "precision": "bf16",
        "license": "apache-2.0",
        "download_bytes": 15_231_233_024,
    },
    "template": TEMPLATE,
    "other_templates": [{"name": "sglang"}],
    "instance_type": "l40s-48gb",
    "instance_types": [
        {
            "instance_type": "l4-24gb",
            "gpu_count": 1,
            "infrastructure": "operator",
            "price_per_hour_microusd": 800_000,
            "fits": False,
            "reason": "It is 9.1 GB short of the 31.6 GB that are needed.",
            "memory": {"total_bytes": 31_600_000_000},
            "total_bytes": 24_152_899_584,
            "usable_bytes": 22_462_196_613,
            "longest_context_tokens": 6144,
            "free": 3,
        },
        {
            "instance_type": "l40s-48gb",
            "gpu_count": 1,
            "infrastructure": "operator",
            "price_per_hour_microusd": 1_550_000,
            "fits": True,
            "reason": None,
            "memory": {"total_bytes": 31_600_000_000},
            "total_bytes": 48_305_799_168,
            "usable_bytes": 44_924_393_226,
            "longest_context_tokens": None,
            "free": 5,
            "settings": {"image": "vllm/vllm-openai:v0.11.0", "provider": "docker-hub"},
            "start": {
                "image_bytes_per_s": 2**24,
                "download_s": 130,
                "load_s": 49,
                "again_s": 50,
                "own": True,
            },
        },
    ],
}


MODEL_REFUSED = {
    "ok": False,
    "reason": "model_not_found",
    "message": "The hub knows no model acme/gone.",
}


MODEL_GATED = {"ok": False, "reason": "model_gated", "message": "acme/gated is gated."}


MODEL_NOWHERE = MODEL_PLAN | {
    "reason": "model_does_not_fit",
    "message": "Each replica needs 692.8 GB. acme/huge does not fit. Choose a smaller model.",
    "instance_type": None,
    "instance_types": [],
}


MODEL_REFUSED_ON: dict[str | None, dict[str, object]] = {
    "l4-24gb": {
        "status": 422,
        "code": "model_does_not_fit",
        "detail": "It does not fit on l4-24gb: it is 9.1 GB short. It fits on l40s-48gb, or a context of 6,144 tokens.",
        "errors": [{"field": "resources.instance_type", "message": "It is 9.1 GB short."}],
    },
    "nope": {
        "status": 422,
        "code": "invalid_input",
        "detail": "resources.instance_type 'nope' is not an instance type.",
        "errors": [{"field": "resources.instance_type", "message": "'nope' is not an instance type"}],
    },
}
"""By the type that is asked for."""


PREFLIGHT = {
    "reason": "image_not_found",
    "message": "As the registry says.",
    "digest": "sha256:4711",
    "platforms": ["linux/amd64"],
    "size_bytes": 2**30,
    "exposed_ports": [8000],
    "port": 9000,
    "warnings": ["The image exposes 8000, not 9000."],
    "proposal": None,
}


PROPOSAL = {
    "server": "vLLM",
    "api_path": "/v1",
    "port": 8000,
    "health_path": "/health",
    "message": "vLLM serves its API at /v1.",
}


INSTANCE_TYPES = [
    {"name": "cpu-small", "gpu_model": None, "gpu_count": 0, "vcpu_millis": 500, "memory_bytes": 2**29}
    | {"disk_bytes": 2**33, "price_per_hour_microusd": 10_000, "infrastructure": "operator"}
    | {"available": True, "free": 3, "unavailable_reason": None},
    {"name": "h200-141gb", "gpu_model": "NVIDIA H200", "gpu_count": 1, "vcpu_millis": 16000}
    | {"memory_bytes": 180 * 2**30, "disk_bytes": 2**33, "price_per_hour_microusd": 4_990_000}
    | {"infrastructure": "operator", "available": False, "free": 0, "unavailable_reason": "no such GPU"},
]
