import { Button, Kbd, Textarea } from "@mantine/core";
import { SendHorizontal, Square } from "lucide-react";
import { useState } from "react";

import classes from "./Playground.module.css";

interface ComposerProps {
  busy: boolean;
  /** Somebody is about to write. */
  begun: () => void;
  send: (question: string) => void;
  stop: () => void;
}

export function Composer({ busy, begun, send, stop }: ComposerProps) {
  const [text, setText] = useState("");
  const submit = () => {
    if (busy || !text.trim()) return;
    send(text.trim());
    setText("");
  };
  return (
    <div className={classes.composer}>
      <Textarea
        aria-label="Message"
        placeholder="Ask something"
        autosize
        minRows={2}
        maxRows={8}
        variant="unstyled"
        value={text}
        onFocus={begun}
        onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
            event.preventDefault();
            submit();
          }
        }}
      />
      <div className={classes.composerFoot}>
        <span>
          <Kbd className={classes.key}>Enter</Kbd> sends, <Kbd className={classes.key}>Shift Enter</Kbd> makes a new line
        </span>
        {busy ? (
          <Button variant="default" leftSection={<Square size={14} strokeWidth={1.5} />} onClick={stop}>
            Stop answer
          </Button>
        ) : (
          <Button leftSection={<SendHorizontal size={14} strokeWidth={1.5} />} onClick={submit} disabled={!text.trim()}>
            Send
          </Button>
        )}
      </div>
    </div>
  );
}
