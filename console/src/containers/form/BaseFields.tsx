import { Autocomplete, PasswordInput, Select, Switch, TextInput } from "@mantine/core";

import type { FieldsProps, Provider } from "./draft";
import classes from "./Form.module.css";

const PROVIDERS: { value: Provider; label: string; placeholder: string }[] = [
  { value: "docker-hub", label: "Docker Hub", placeholder: "vllm/vllm-openai:v0.6.3" },
  { value: "github", label: "GitHub", placeholder: "ghcr.io/owner/image:tag" },
  { value: "gitlab", label: "GitLab", placeholder: "registry.gitlab.com/group/image:tag" },
  { value: "quay", label: "Quay", placeholder: "quay.io/owner/image:tag" },
  { value: "google", label: "Google", placeholder: "europe-docker.pkg.dev/project/repository/image:tag" },
  { value: "aws", label: "AWS", placeholder: "123456789012.dkr.ecr.eu-west-1.amazonaws.com/image:tag" },
  { value: "azure", label: "Azure", placeholder: "name.azurecr.io/image:tag" },
  { value: "nvidia", label: "NVIDIA", placeholder: "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.3" },
  { value: "local", label: "This machine", placeholder: "local/chat:latest" },
  { value: "other", label: "Other", placeholder: "registry.example.com/image:tag" },
];
const CATEGORIES = ["Chat", "Embeddings", "Image", "Speech", "Reranking", "Vision"];

/** A host in the image says which registry it is, so nobody has to choose it again. */
export function providerOf(image: string): Provider | null {
  const host = image.split("/")[0] ?? "";
  if (image.startsWith("local/")) return "local";
  if (/^(docker\.io|index\.docker\.io)$/.test(host)) return "docker-hub";
  if (host === "ghcr.io") return "github";
  if (host === "registry.gitlab.com") return "gitlab";
  if (host === "quay.io") return "quay";
  if (host === "nvcr.io") return "nvidia";
  if (/(^|\.)gcr\.io$|-docker\.pkg\.dev$/.test(host)) return "google";
  if (/\.amazonaws\.com(\.cn)?$|^public\.ecr\.aws$/.test(host)) return "aws";
  if (/\.azurecr\.(io|cn|us)$/.test(host)) return "azure";
  return null;
}

export function BaseFields({ draft, change, errors, isNameFixed = false }: FieldsProps) {
  const provider = PROVIDERS.find((one) => one.value === draft.provider);
  return (
    <div className={classes.fields}>
      <div className={classes.pair}>
        <TextInput
          label="Name"
          description={isNameFixed ? "Changes while it is stopped." : "Unique in its project."}
          disabled={isNameFixed}
          placeholder="llama-3.1-8b-chat"
          value={draft.name}
          error={errors["name"]}
          onChange={(event) => change({ name: event.currentTarget.value })}
          autoComplete="off"
          spellCheck={false}
        />
        <Autocomplete
          label="Category"
          description="Optional. A label to group by."
          placeholder="e.g. Chat"
          data={CATEGORIES}
          value={draft.category}
          error={errors["category"]}
          onChange={(category) => change({ category })}
        />
      </div>
      <div className={classes.imageRow}>
        <Select
          label="Registry"
          data={PROVIDERS.map(({ value, label }) => ({ value, label }))}
          value={draft.provider}
          error={errors["registry.provider"]}
          onChange={(value) => value && change({ provider: value as Provider })}
        />
        <TextInput
          label="Image"
          placeholder={provider?.placeholder}
          value={draft.image}
          error={errors["image"]}
          onChange={(event) => {
            const image = event.currentTarget.value;
            change({ image, provider: providerOf(image.trim()) ?? draft.provider });
          }}
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12 } }}
          autoComplete="off"
          spellCheck={false}
        />
      </div>
      {draft.provider === "local" ? null : (
        <Switch
          label="Private image"
          checked={draft.isPrivate}
          onChange={(event) => change({ isPrivate: event.currentTarget.checked })}
        />
      )}
      {draft.isPrivate && draft.provider !== "local" ? (
        <div className={classes.pair}>
          <TextInput
            label="User name"
            value={draft.username}
            error={errors["registry.username"]}
            onChange={(event) => change({ username: event.currentTarget.value })}
            autoComplete="off"
          />
          <PasswordInput
            label="Password or token"
            description="Kept encrypted, never shown again."
            value={draft.password}
            error={errors["registry.password"]}
            onChange={(event) => change({ password: event.currentTarget.value })}
            autoComplete="new-password"
          />
        </div>
      ) : null}
    </div>
  );
}
