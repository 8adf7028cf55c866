import { Button, PasswordInput } from "@mantine/core";
import { useState } from "react";

import classes from "./Start.module.css";

interface HubTokenProps {
  /** The one that is used now; empty: none. */
  token: string;
  use: (token: string) => void;
}

/** Asked for when a model is not everybody's. It is used when it is whole, not at each letter, and no storage of the browser has it. */
export function HubToken({ token, use }: HubTokenProps) {
  const [written, setWritten] = useState(token);
  return (
    <form
      className={classes.token}
      aria-label="Hub token"
      onSubmit={(event) => {
        event.preventDefault();
        use(written.trim());
      }}
    >
      <PasswordInput
        label="Hub token"
        description="Sent to the hub, and stored encrypted for the container as HF_TOKEN. This browser does not keep it."
        placeholder="hf_…"
        value={written}
        onChange={(event) => setWritten(event.currentTarget.value)}
        autoComplete="off"
        data-1p-ignore
        spellCheck={false}
      />
      {written.trim() !== token ? (
        <Button type="submit" variant="default">
          {written.trim() ? "Use this token" : "Remove it"}
        </Button>
      ) : null}
    </form>
  );
}
