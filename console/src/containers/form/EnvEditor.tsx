import { ActionIcon, Button, TextInput } from "@mantine/core";
import { Plus, X } from "lucide-react";

import type { Variable } from "./draft";
import { merged, parseEnvFile } from "./envFile";
import classes from "./Form.module.css";

const MONO = { input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12 } };

interface EnvEditorProps {
  env: Variable[];
  change: (env: Variable[]) => void;
  error: string | undefined;
}

/** Names and values; a .env file pasted into any name becomes rows. */
export function EnvEditor({ env, change, error }: EnvEditorProps) {
  const rows = env.length > 0 ? env : [{ name: "", value: "" }];
  const set = (at: number, changes: Partial<Variable>) =>
    change(rows.map((one, index) => (index === at ? { ...one, ...changes } : one)));
  const paste = (event: React.ClipboardEvent) => {
    const text = event.clipboardData.getData("text");
    if (!text.includes("=")) return;
    event.preventDefault();
    change(merged(env, parseEnvFile(text)));
  };
  return (
    <section aria-label="Environment">
      <h3 className={classes.subtitle}>Environment</h3>
      <p className={classes.hint}>Kept encrypted and never shown again. Paste a .env file into a name.</p>
      <div className={classes.env}>
        {rows.map((row, at) => (
          <div key={at} className={classes.envRow}>
            <TextInput
              aria-label={`Name of variable ${at + 1}`}
              placeholder="NAME"
              styles={MONO}
              value={row.name}
              onPaste={paste}
              onChange={(event) => set(at, { name: event.currentTarget.value.trim() })}
              autoComplete="off"
              spellCheck={false}
            />
            <TextInput
              aria-label={`Value of variable ${at + 1}`}
              placeholder={row.value === null ? "••••••••  kept as it is" : "value"}
              styles={MONO}
              value={row.value ?? ""}
              onChange={(event) => set(at, { value: event.currentTarget.value })}
              autoComplete="off"
              spellCheck={false}
            />
            <ActionIcon
              size={32}
              aria-label={`Remove ${row.name || `variable ${at + 1}`}`}
              onClick={() => change(rows.filter((_, index) => index !== at))}
            >
              <X size={16} strokeWidth={1.5} />
            </ActionIcon>
          </div>
        ))}
      </div>
      {error ? <p className={classes.error}>{error}</p> : null}
      <Button
        variant="subtle"
        size="xs"
        leftSection={<Plus size={14} strokeWidth={1.5} />}
        onClick={() => change([...rows, { name: "", value: "" }])}
      >
        Add a variable
      </Button>
    </section>
  );
}
