import { Button, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Mail } from "lucide-react";
import { useState } from "react";

import { api, body } from "@/api/client";
import { messageOf } from "@/api/problem";

import classes from "./SignIn.module.css";

export function EmailForm({ sent }: { sent: (email: string) => void }) {
  const [email, setEmail] = useState("");
  const start = useMutation({
    mutationFn: () => body(api.POST("/api/v1/auth/email/start", { body: { email: email.trim() } })),
    onSuccess: () => sent(email.trim()),
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        start.mutate();
      }}
    >
      <h1 className={classes.title}>Sign in to Moorage</h1>
      <p className={classes.lead}>New here? The same steps make your account.</p>
      <TextInput
        size="lg"
        label="E-mail"
        type="email"
        name="email"
        autoComplete="email"
        autoFocus
        required
        withAsterisk={false}
        placeholder="you@example.com"
        leftSection={<Mail size={16} strokeWidth={1.5} />}
        value={email}
        onChange={(event) => setEmail(event.currentTarget.value)}
        error={start.isError ? messageOf(start.error) : null}
      />
      <Button type="submit" size="lg" fullWidth mt={12} loading={start.isPending}>
        Send me a code
      </Button>
      <p className={classes.small}>Six digits, valid for 10 minutes. There is no password to lose.</p>
    </form>
  );
}
