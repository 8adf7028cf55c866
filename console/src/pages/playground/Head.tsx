import { Button, SegmentedControl } from "@mantine/core";
import { Plus } from "lucide-react";

import type { Container } from "@/api/queries";
import { Copy } from "@/components/Copy";
import type { Served } from "@/containers/served";

import { type Parameters, requestBody } from "./chat";
import type { Turn } from "./Conversation";
import type { Kind } from "./oneRequest";
import classes from "./Playground.module.css";

interface HeadProps {
  container: Container;
  served: Served;
  parameters: Parameters;
  turns: Turn[];
  clear: () => void;
  kind: "chat" | Kind;
  setKind: (kind: "chat" | Kind) => void;
}

const KINDS: { value: "chat" | Kind; label: string }[] = [
  { value: "chat", label: "Chat" },
  { value: "embeddings", label: "Embeddings" },
  { value: "images", label: "Images" },
  { value: "http", label: "HTTP" },
];

/** Below where the API begins. */
const PATHS: Record<"chat" | Kind, string> = {
  chat: "/chat/completions",
  embeddings: "/embeddings",
  images: "/images/generations",
  http: "",
};

export function Head({ container, served, parameters, turns, clear, kind, setKind }: HeadProps) {
  const url = `${container.endpoint_url}${served.base}/chat/completions`;
  const model = parameters.model || served.models[0] || "";
  const question = turns.at(-1)?.question ?? "Hello";
  const body = JSON.stringify(requestBody([{ role: "user", content: question }], { ...parameters, model }));
  const curl = `curl ${url} \\
  -H "Authorization: Bearer $MOORAGE_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '${body.replaceAll("'", "'\\''")}'`;
  return (
    <header className={classes.head}>
      <h1 className="visually-hidden">Playground</h1>
      <SegmentedControl
        size="xs"
        aria-label="Kind of request"
        data={KINDS}
        value={kind}
        onChange={(value) => setKind(value as "chat" | Kind)}
      />
      <code>{kind === "http" ? `…/c/${container.id}` : `POST …/c/${container.id}${served.base}${PATHS[kind]}`}</code>
      {kind === "chat" ? (
        <>
          <Copy text={curl} label="Copy as curl" withLabel />
          <Button variant="default" size="xs" leftSection={<Plus size={14} strokeWidth={1.5} />} onClick={clear} disabled={turns.length === 0}>
            New chat
          </Button>
        </>
      ) : null}
    </header>
  );
}
