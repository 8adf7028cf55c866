"""Names of notifications. Each says only that something changed; whoever hears it reads."""

WEBHOOKS = "moorage_webhooks"
