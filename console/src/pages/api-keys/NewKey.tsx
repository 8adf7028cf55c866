import { ShownOnce } from "@/components/ShownOnce";

import type { NewKey as Made } from "./queries";

export function NewKey({ made, close }: { made: Made; close: () => void }) {
  const hint = (
    <>
      Send it as <code>Authorization: Bearer …</code>. It works at once.
    </>
  );
  return (
    <ShownOnce secret={made.key} what="key" hint={hint} close={close}>
      Copy the key now. It is not shown again: only its last four characters are kept in sight.
    </ShownOnce>
  );
}
