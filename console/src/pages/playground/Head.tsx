import { Button } from "@mantine/core";
import { Plus } from "lucide-react";

import type { Container } from "@/api/queries";
import { Copy } from "@/components/Copy";
import type { Served } from "@/containers/served";

import { type Parameters, requestBody } from "./chat";
import type { Turn } from "./Conversation";
import classes from "./Playground.module.css";

interface HeadProps {
  container: Container;
  served: Served;
  parameters: Parameters;
  turns: Turn[];
  clear: () => void;
}

export function Head({ container, served, parameters, turns, clear }: HeadProps) {
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
      <code>
        POST …/c/{container.id}
        {served.base}/chat/completions
      </code>
      <Copy text={curl} label="Copy as curl" withLabel />
      <Button variant="default" size="xs" leftSection={<Plus size={14} strokeWidth={1.5} />} onClick={clear}>
        New chat
      </Button>
    </header>
  );
}
