/** Every page is registered here, and loaded when it is first opened. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet, redirect } from "@tanstack/react-router";

import { Problem } from "@/api/problem";
import { meQuery, queryClient } from "@/api/queries";
import { Frame } from "@/frame/Frame";
import { NotFound } from "@/pages/not-found/NotFound";
import { PageError } from "@/pages/not-found/PageError";

import { paths } from "./paths";

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound });

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/login",
  validateSearch: (search): { next?: string } => (typeof search.next === "string" ? { next: search.next } : {}),
  component: lazyRouteComponent(() => import("@/pages/sign-in/SignIn"), "SignIn"),
});

/** Everything below it is for somebody who is signed in. */
const signedIn = createRoute({
  getParentRoute: () => root,
  id: "signed-in",
  beforeLoad: async ({ location }) => {
    try {
      await queryClient.ensureQueryData(meQuery);
    } catch (error) {
      if (error instanceof Problem && error.status === 401) throw redirect({ href: paths.signIn(location.href) });
      throw error;
    }
  },
});

const home = createRoute({
  getParentRoute: () => signedIn,
  path: "/",
  component: lazyRouteComponent(() => import("@/pages/home/Home"), "Home"),
});

/** A project's pages, inside the frame with its two bars. */
const project = createRoute({
  getParentRoute: () => signedIn,
  path: "/projects/$projectId",
  component: Frame,
});

const service = createRoute({
  getParentRoute: () => project,
  path: "/containers",
  component: lazyRouteComponent(() => import("@/pages/service/Service"), "Service"),
});

const serviceContainer = createRoute({
  getParentRoute: () => service,
  path: "/$containerId",
  component: lazyRouteComponent(() => import("@/pages/service/ContainerDetail"), "ContainerDetail"),
});

const routeTree = root.addChildren([
  signIn,
  signedIn.addChildren([home, project.addChildren([service.addChildren([serviceContainer])])]),
]);

export const router = createRouter({
  routeTree,
  defaultPreload: "intent",
  defaultErrorComponent: PageError,
  defaultNotFoundComponent: NotFound,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
