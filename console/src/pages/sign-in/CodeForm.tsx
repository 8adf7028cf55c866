import { Anchor, Button, PinInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { useNavigate } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import { api, body, rememberCsrfToken } from "@/api/client";
import { messageOf } from "@/api/problem";
import { queryClient } from "@/api/queries";
import { done, failed } from "@/components/toasts";

import { providersQuery } from "./queries";
import classes from "./SignIn.module.css";

const DIGITS = 6;

interface CodeFormProps {
  email: string;
  next: string | undefined;
  back: () => void;
}

export function CodeForm({ email, next, back }: CodeFormProps) {
  const [code, setCode] = useState("");
  const first = useRef<HTMLInputElement>(null);
  const navigate = useNavigate();
  // Until it is known, as it usually is.
  const mailsCodes = useQuery(providersQuery).data?.mails_codes ?? true;
  const verify = useMutation({
    mutationFn: (digits: string) => body(api.POST("/api/v1/auth/email/verify", { body: { email, code: digits } })),
    onSuccess: async (signedIn) => {
      queryClient.clear();
      rememberCsrfToken(signedIn.csrf_token);
      const address = ownAddress(next);
      // The server's own page, which this application has no route for.
      if (address.startsWith("/device?")) window.location.assign(address);
      else await navigate({ to: address });
    },
    onError: () => setCode(""),
  });
  // The boxes cannot have the focus while the code is looked at.
  useEffect(() => {
    if (verify.isError) first.current?.focus();
  }, [verify.isError]);
  const resend = useMutation({
    mutationFn: () => body(api.POST("/api/v1/auth/email/start", { body: { email } })),
    onSuccess: () => done(mailsCodes ? "A new code is on its way." : "There is a new code in the outbox."),
    onError: failed,
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        verify.mutate(code);
      }}
    >
      <h1 className={classes.title}>Enter the code</h1>
      <p className={classes.lead}>
        {mailsCodes ? (
          <>
            We mailed six digits to <strong>{email}</strong>.
          </>
        ) : (
          <>
            This installation has no mail server yet. Whoever runs it finds the six digits for <strong>{email}</strong> in
            its outbox.
          </>
        )}
      </p>
      <PinInput
        length={DIGITS}
        type="number"
        size="lg"
        gap={8}
        oneTimeCode
        autoFocus
        ariaLabel="Digit of the code"
        ref={first}
        value={code}
        onChange={setCode}
        onComplete={(digits) => verify.mutate(digits)}
        error={verify.isError}
        disabled={verify.isPending}
        className={classes.pin}
      />
      {verify.isError ? (
        <p className={classes.wrong} role="alert">
          {messageOf(verify.error)}
        </p>
      ) : null}
      <Button type="submit" size="lg" fullWidth mt={12} loading={verify.isPending} disabled={code.length < DIGITS}>
        Sign in
      </Button>
      <p className={classes.small}>
        <Anchor component="button" type="button" size="xs" onClick={() => resend.mutate()}>
          Send a new code
        </Anchor>
        <span aria-hidden> · </span>
        <Anchor component="button" type="button" size="xs" onClick={back}>
          Use another address
        </Anchor>
      </p>
    </form>
  );
}

/** `next` stands in the address, where anybody may have written it: only a path of our own is followed. */
function ownAddress(next: string | undefined): string {
  return next && /^\/(?![/\\])/.test(next) ? next : paths.home();
}
