/** Every page is registered here, and loaded when it is first opened. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet, redirect } from "@tanstack/react-router";

import { type CreateSearch, paths } from "@/addresses/paths";
import { Problem } from "@/api/problem";
import { meQuery, queryClient } from "@/api/queries";
import { AccountFrame } from "@/frame/AccountFrame";
import { ConnectionBar } from "@/frame/ConnectionBar";
import { Frame } from "@/frame/Frame";
import { lastProject } from "@/frame/lastProject";
import { OrganizationFrame } from "@/frame/OrganizationFrame";
import { PageTitle } from "@/frame/PageTitle";
import { NotFound } from "@/pages/not-found/NotFound";
import { PageError } from "@/pages/not-found/PageError";

import { dashboardRoutes } from "./dashboardRoutes";
import { operatorRoutes } from "./operatorRoutes";

const root = createRootRoute({
  component: () => (
    <>
      <PageTitle />
      <ConnectionBar />
      <Outlet />
    </>
  ),
  notFoundComponent: NotFound,
});

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

const organization = createRoute({
  getParentRoute: () => signedIn,
  path: "/organizations/$organizationId",
  component: lazyRouteComponent(() => import("@/pages/home/OrganizationHome"), "OrganizationHome"),
});

const organizationFrame = createRoute({
  getParentRoute: () => signedIn,
  path: "/organizations/$organizationId/billing",
  component: OrganizationFrame,
});

const firstTopUp = createRoute({
  getParentRoute: () => organizationFrame,
  path: "/",
  component: lazyRouteComponent(() => import("@/pages/billing/FirstTopUp"), "FirstTopUp"),
});

/** The top-up that somebody has just paid for. */
const paidSearch = (search: Record<string, unknown>): { paid?: string } =>
  typeof search.paid === "string" ? { paid: search.paid } : {};

/** Where a card payment comes back to; the payment page knows no project. */
const afterPayment = createRoute({
  getParentRoute: () => signedIn,
  path: "/billing",
  validateSearch: paidSearch,
  beforeLoad: ({ search }) => {
    const project = lastProject();
    const paid = search.paid ? `?${new URLSearchParams({ paid: search.paid })}` : "";
    throw redirect({ href: project ? paths.section(project, "billing") + paid : paths.home() });
  },
});

const invitation = createRoute({
  getParentRoute: () => signedIn,
  path: "/invitations/$token",
  component: lazyRouteComponent(() => import("@/pages/invitation/Invitation"), "Invitation"),
});

const accountFrame = createRoute({ getParentRoute: () => signedIn, path: "/account", component: AccountFrame });

const account = createRoute({
  getParentRoute: () => accountFrame,
  path: "/",
  component: lazyRouteComponent(() => import("@/pages/account/Account"), "Account"),
});

/** Of anybody who may see it: it finds out where it belongs, and goes there. */
const request = createRoute({
  getParentRoute: () => signedIn,
  path: "/requests/$requestId",
  component: lazyRouteComponent(() => import("@/pages/request/FindRequest"), "FindRequest"),
});

const operator = operatorRoutes(signedIn);

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

const serviceIndex = createRoute({
  getParentRoute: () => service,
  path: "/",
  component: lazyRouteComponent(() => import("@/pages/service/ServiceIndex"), "ServiceIndex"),
});

const serviceContainer = createRoute({
  getParentRoute: () => service,
  path: "/$containerId",
  validateSearch: (search): { then?: "playground" } => (search.then === "playground" ? { then: "playground" } : {}),
  component: lazyRouteComponent(() => import("@/pages/service/ContainerDetail"), "ContainerDetail"),
});

function createSearch(search: Record<string, unknown>): CreateSearch {
  const names = ["copy", "model", "template", "step"] as const;
  return Object.fromEntries(names.filter((name) => typeof search[name] === "string").map((name) => [name, search[name]]));
}

const create = createRoute({
  getParentRoute: () => project,
  path: "/create",
  validateSearch: createSearch,
  component: lazyRouteComponent(() => import("@/pages/create/Create"), "Create"),
});

const apiKeys = createRoute({
  getParentRoute: () => project,
  path: "/api-keys",
  component: lazyRouteComponent(() => import("@/pages/api-keys/ApiKeys"), "ApiKeys"),
});

const members = createRoute({
  getParentRoute: () => project,
  path: "/members",
  component: lazyRouteComponent(() => import("@/pages/members/Members"), "Members"),
});

const billing = createRoute({
  getParentRoute: () => project,
  path: "/billing",
  validateSearch: paidSearch,
  component: lazyRouteComponent(() => import("@/pages/billing/Billing"), "Billing"),
});

const machines = createRoute({
  getParentRoute: () => project,
  path: "/machines",
  component: lazyRouteComponent(() => import("@/pages/machines/Machines"), "Machines"),
});

const webhooks = createRoute({
  getParentRoute: () => project,
  path: "/webhooks",
  component: lazyRouteComponent(() => import("@/pages/webhooks/Webhooks"), "Webhooks"),
});

const audit = createRoute({
  getParentRoute: () => project,
  path: "/audit",
  component: lazyRouteComponent(() => import("@/pages/audit/Audit"), "Audit"),
});

const receipts = ["/containers/$containerId/requests/$requestId", "/requests/$requestId"].map((path) =>
  createRoute({
    getParentRoute: () => project,
    path,
    component: lazyRouteComponent(() => import("@/pages/request/Request"), "Request"),
  }),
);

const routeTree = root.addChildren([
  signIn,
  signedIn.addChildren([
    home,
    organization,
    organizationFrame.addChildren([firstTopUp]),
    afterPayment,
    invitation,
    request,
    accountFrame.addChildren([account]),
    operator,
    project.addChildren([
      service.addChildren([serviceIndex, serviceContainer]),
      create,
      apiKeys,
      members,
      billing,
      machines,
      audit,
      webhooks,
      ...dashboardRoutes(() => project),
      ...receipts,
    ]),
  ]),
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
