import { notifications } from "@mantine/notifications";

import { messageOf, Problem } from "@/api/problem";

/** Its cross is heard as a button of that name. */
const CLOSE = { closeButtonProps: { "aria-label": "Close" } };

/** Only things that are done; gone after five seconds. */
export function done(message: string): void {
  notifications.show({ message, autoClose: 5_000, withBorder: true, color: "teal", ...CLOSE });
}

/** What failed stays until it is closed. */
export function failed(error: unknown): void {
  const id = error instanceof Problem && error.requestId ? `Request ${error.requestId}` : undefined;
  notifications.show({ title: messageOf(error), message: id, autoClose: false, withBorder: true, color: "red", ...CLOSE });
}
