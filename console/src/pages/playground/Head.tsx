import { Button } from "@mantine/core";
import { Plus } from "lucide-react";

import type { Container } from "@/api/queries";
import { Copy } from "@/components/Copy";

import { type Parameters, requestBody } from "./chat";
import type { Turn } from "./Conversation";
import classes from "./Playground.module.css";

interface HeadProps {
  container: Container;
  parameters: Parameters;
  turns: Turn[];
  clear: () => void;
}

export function Head({ container, parameters, turns, clear }: HeadProps) {
  const url = `${container.endpoint_url}/api/v1/chat/completions`;
  const question = turns.at(-1)?.question ?? "Hello";
  const body = JSON.stringify(requestBody([{ role: "user", content: question }], parameters));
  const curl = `curl ${url} \\
  -H "Authorization: Bearer $MOORAGE_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '${body.replaceAll("'", "'\\''")}'`;
  return (
    <header className={classes.head}>
      <h1 className="visually-hidden">Playground</h1>
      <code>
        POST …/c/{container.id}/api/v1/chat/completions
        {container.api_path === "/v1" ? " → /v1/chat/completions" : null}
      </code>
      <Copy text={curl} label="Copy as curl" withLabel />
      <Button variant="default" size="xs" leftSection={<Plus size={14} strokeWidth={1.5} />} onClick={clear}>
        New chat
      </Button>
    </header>
  );
}
