import { ActionIcon, Button, TextInput, Tooltip } from "@mantine/core";
import { Eye, Lock, Plus, X } from "lucide-react";

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
      <p className={classes.hint}>
        A secret is kept encrypted, never shown again and covered in logs; a plain one is shown. Paste a .env file into a name.
      </p>
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
            <KindButton row={row} number={at + 1} change={(changes) => set(at, changes)} />
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

/** A secret whose value nobody can read becomes plain by being written anew. */
function KindButton({ row, number, change }: { row: Variable; number: number; change: (changes: Partial<Variable>) => void }) {
  const name = row.name || `variable ${number}`;
  const Icon = row.plain ? Eye : Lock;
  return (
    <Tooltip label={row.plain ? "Plain: shown, also in logs" : "Secret: never shown again"}>
      <ActionIcon
        size={32}
        aria-label={`${name} is a secret`}
        aria-pressed={!row.plain}
        onClick={() => change(row.plain ? { plain: false } : { plain: true, value: row.value ?? "" })}
      >
        <Icon size={16} strokeWidth={1.5} />
      </ActionIcon>
    </Tooltip>
  );
}
