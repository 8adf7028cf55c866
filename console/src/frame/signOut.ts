import { paths } from "@/addresses/paths";
import { api, body } from "@/api/client";
import { queryClient } from "@/api/queries";
import { failed } from "@/components/toasts";

/** A whole new page, so that nothing of this account stays in memory. `next`: where whoever signs in then goes. */
export async function signOut(next?: string): Promise<void> {
  try {
    await body(api.POST("/api/v1/auth/logout"));
    queryClient.clear();
    window.location.assign(paths.signIn(next));
  } catch (error) {
    failed(error);
  }
}
