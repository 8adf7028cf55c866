import { TextInput } from "@mantine/core";
import { Search } from "lucide-react";

import classes from "./Operator.module.css";

interface FilterProps {
  label: string;
  placeholder: string;
  text: string;
  setText: (text: string) => void;
}

export function Filter({ label, placeholder, text, setText }: FilterProps) {
  return (
    <TextInput
      className={classes.filter}
      aria-label={label}
      placeholder={placeholder}
      leftSection={<Search size={16} strokeWidth={1.5} />}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
    />
  );
}
