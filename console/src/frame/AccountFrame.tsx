import { Shell } from "./Frame";
import { PlainTopBar } from "./PlainTopBar";

export function AccountFrame() {
  return <Shell top={<PlainTopBar title="Account" />} />;
}
