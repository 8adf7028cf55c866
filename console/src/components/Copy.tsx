import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { Check, Copy as CopyIcon } from "lucide-react";
import { useState } from "react";

const SHOWN_MS = 1_500;

interface CopyProps {
  text: string;
  /** What is copied, for those who cannot see it: "Copy URL". */
  label: string;
  withLabel?: boolean;
}

export function Copy({ text, label, withLabel = false }: CopyProps) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    window.setTimeout(() => setCopied(false), SHOWN_MS);
  };
  const icon = copied ? <Check size={14} strokeWidth={1.5} /> : <CopyIcon size={14} strokeWidth={1.5} />;
  if (withLabel) {
    return (
      <Button variant="default" size="xs" leftSection={icon} onClick={copy}>
        {copied ? "Copied" : label}
      </Button>
    );
  }
  return (
    <Tooltip label={copied ? "Copied" : label}>
      <ActionIcon aria-label={label} onClick={copy}>
        {icon}
      </ActionIcon>
    </Tooltip>
  );
}
