/** The operator's area; for anybody else there is nothing at its addresses. */
import { type AnyRoute, createRoute, lazyRouteComponent, notFound, redirect } from "@tanstack/react-router";

import { paths } from "@/addresses/paths";
import { meQuery, queryClient } from "@/api/queries";
import { OperatorFrame } from "@/frame/OperatorFrame";

export function operatorRoutes<Parent extends AnyRoute>(parent: Parent) {
  const area = createRoute({
    getParentRoute: () => parent,
    path: "/operator",
    beforeLoad: async () => {
      const me = await queryClient.ensureQueryData(meQuery);
      if (!me.user?.is_operator) throw notFound();
    },
    component: OperatorFrame,
  });
  return area.addChildren([
    createRoute({
      getParentRoute: () => area,
      path: "/",
      beforeLoad: () => {
        throw redirect({ href: paths.operator() });
      },
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/home",
      component: lazyRouteComponent(() => import("@/pages/operator/Home"), "Home"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/organizations/$organizationId",
      component: lazyRouteComponent(() => import("@/pages/operator/Organization"), "Organization"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/health",
      component: lazyRouteComponent(() => import("@/pages/operator/Health"), "Health"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/organizations",
      component: lazyRouteComponent(() => import("@/pages/operator/Organizations"), "Organizations"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/users",
      component: lazyRouteComponent(() => import("@/pages/operator/Users"), "Users"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/transfers",
      component: lazyRouteComponent(() => import("@/pages/operator/Transfers"), "Transfers"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/payouts",
      component: lazyRouteComponent(() => import("@/pages/operator/Payouts"), "Payouts"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/requests",
      component: lazyRouteComponent(() => import("@/pages/operator/Requests"), "Requests"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/machines",
      component: lazyRouteComponent(() => import("@/pages/operator/Machines"), "Machines"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/instance-types",
      component: lazyRouteComponent(() => import("@/pages/operator/InstanceTypes"), "InstanceTypes"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/revenue",
      component: lazyRouteComponent(() => import("@/pages/operator/Revenue"), "Revenue"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/audit",
      component: lazyRouteComponent(() => import("@/pages/operator/Audit"), "Audit"),
    }),
    createRoute({
      getParentRoute: () => area,
      path: "/outbox",
      component: lazyRouteComponent(() => import("@/pages/operator/Outbox"), "Outbox"),
    }),
  ]);
}
