/** Where a notification leads, and how many of them are said to be new. */
import { expect, test } from "vitest";

import { addressOf, counted, heard } from "@/frame/notifications";

const HERE = "prj_here";

function of(event: string, project_id: string | null = null, container_id: string | null = null) {
  return { event, project_id, container_id };
}

test.each([
  [of("container.state", "prj_there", "ctr_1"), "/projects/prj_there/containers/ctr_1"],
  [of("replica_limit.refused", "prj_there", "ctr_1"), "/projects/prj_there/containers/ctr_1"],
  [of("replica_limit.approved", "prj_there"), "/projects/prj_there/containers"],
  [of("billing.low_credit"), "/projects/prj_here/billing"],
  [of("billing.payout_confirm"), "/projects/prj_here/machines"],
  [of("billing.payout_account"), "/projects/prj_here/machines"],
  [of("machine.silent"), "/projects/prj_here/machines"],
  [of("invitation.accept"), "/projects/prj_here/members"],
  [of("member.leave"), "/projects/prj_here/members"],
  [of("webhook.disable"), "/projects/prj_here/webhooks"],
])("%j leads to %s", (one, address) => {
  expect(addressOf(one, HERE)).toBe(address);
});

test("what was deleted, and what nobody here can change, leads nowhere", () => {
  expect(addressOf(of("container.state", "prj_there"), HERE)).toBeNull();
  expect(addressOf(of("organization.suspend"), HERE)).toBeNull();
});

test.each([
  [0, "", "Notifications"],
  [1, "1", "Notifications, 1 unread"],
  [9, "9", "Notifications, 9 unread"],
  [20, "9+", "Notifications, 9+ unread"],
])("%i unread", (unread, text, words) => {
  expect(counted(unread)).toBe(text);
  expect(heard(unread)).toBe(words);
});
