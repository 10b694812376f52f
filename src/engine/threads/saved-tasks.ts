/** The operations on saved objects: insights, dashboards, annotations, and the links with which they are shared. */
import type { ExperimentFilter } from '../../rules/experiments/edit/experiment-list.ts'
import type {
  AnnotationFilter,
  DashboardFilter,
  InsightFilter,
  ListRequest,
} from '../../rules/saved/lists.ts'
import type {
  AnnotationFields,
  DashboardRequest,
  InsightRequest,
  SavedPlace,
  SavedRequest,
  SharedPlace,
  SharePassword,
  SharingAccess,
  SharingChanges,
} from '../../rules/saved/saved.ts'
import type { Showing } from '../../rules/saved/saved-bodies.ts'
import { accessOf, inRange, isUnlocked } from '../../rules/saved/shared-access.ts'
import {
  type ShownFormat,
  type ShownText,
  shownDashboard,
  shownInsight,
  shownShared,
} from '../../rules/saved/shown-text.ts'
import type { OrganizationStore } from '../../store/catalog/organization-store.ts'

type Store = Pick<OrganizationStore, 'saved'>
/**
 * The stores that are needed to show an object as text. The text also contains names of users and the time zone of the
 * project.
 */
type ShowingStore = Pick<OrganizationStore, 'saved' | 'users' | 'projects'>
type ExperimentsOf = Pick<OrganizationStore, 'experiments'>
type AnnotationRequest = SavedRequest<AnnotationFields>

/** A request to show the object that a token opens. */
export interface SharedRequest {
  readonly token: string
  readonly format: ShownFormat
  readonly type: 'scene' | 'embed'
  /**
   * A text that proves that the visitor has entered the password of the link (rules/saved/shared-access.ts). '' if the
   * visitor has sent no proof.
   */
  readonly proof: string
  /** The name of the time range that the visitor has chosen. Null stands for the object's own time range. */
  readonly range: string | null
}

/** The answer to a `SharedRequest`. */
export interface SharedAnswer {
  /** True if pages of other sites may show the dashboard or insight in a frame. */
  readonly isEmbeddable: boolean
  /** The text of the dashboard or insight. Null if the visitor has to give the password first. */
  readonly shown: ShownText | null
}

/** The protection of a link: whether it needs a password, and which passwords it accepts. */
export type ShareLock = Pick<SharingAccess, 'isPasswordRequired' | 'passwords'>

/**
 * The operations on saved objects by name. A refusal is a `ServiceError`. An operation that returns a view or a text
 * returns null if the object does not exist. If the object is deleted, the view is still returned, but a text only with
 * `withDeleted`. A dashboard with its tiles can have megabytes, so it is sent between threads only as text.
 */
export const SAVED_HANDLERS = {
  listInsights: ({ saved }: Store, list: ListRequest<InsightFilter>) => saved.listInsights(list),
  getInsight: ({ saved }: Store, place: SavedPlace) => saved.getInsight(place),
  createInsight: ({ saved }: Store, request: InsightRequest) => saved.createInsight(request),
  changeInsight: ({ saved }: Store, request: InsightRequest & SavedPlace) =>
    saved.changeInsight(request),
  showInsight(store: ShowingStore, place: SavedPlace): ShownText | null {
    const view = store.saved.getInsight(place)
    return view?.insight.isDeleted === false ? shownInsight(showingOf(store), view) : null
  },
  listDashboards: ({ saved }: Store, list: ListRequest<DashboardFilter>) =>
    saved.listDashboards(list),
  /** Returns a dashboard without its tiles. */
  getDashboard: ({ saved }: Store, place: SavedPlace) => saved.dashboardAlone(place),
  createDashboard: ({ saved }: Store, request: DashboardRequest) =>
    saved.createDashboard(request).dashboard,
  changeDashboard: ({ saved }: Store, request: DashboardRequest & SavedPlace) =>
    saved.changeDashboard(request).dashboard,
  /** Returns the text of a dashboard. If `withDeleted` is true, a deleted dashboard is shown too. */
  showDashboard(
    store: ShowingStore,
    { withDeleted, ...place }: SavedPlace & { readonly withDeleted: boolean },
  ): ShownText | null {
    const view = store.saved.getDashboard(place)
    const isShown = view !== null && (withDeleted || !view.dashboard.isDeleted)
    return isShown ? shownDashboard(showingOf(store), view) : null
  },
  listAnnotations: ({ saved }: Store, list: ListRequest<AnnotationFilter>) =>
    saved.listAnnotations(list),
  getAnnotation: ({ saved }: Store, place: SavedPlace) => saved.getAnnotation(place),
  createAnnotation: ({ saved }: Store, request: AnnotationRequest) =>
    saved.createAnnotation(request),
  changeAnnotation: ({ saved }: Store, request: AnnotationRequest & SavedPlace) =>
    saved.changeAnnotation(request),
  listExperiments: ({ experiments }: ExperimentsOf, list: ListRequest<ExperimentFilter>) =>
    experiments.list(list),
  getExperiment: ({ experiments }: ExperimentsOf, place: SavedPlace) => experiments.get(place),
  listHoldouts: ({ experiments }: ExperimentsOf, { projectId }: Pick<SavedPlace, 'projectId'>) =>
    experiments.holdouts(projectId),
  listSavedMetrics: ({ experiments }: ExperimentsOf, list: ListRequest<string>) =>
    experiments.savedMetrics(list),
  getSavedMetric: ({ experiments }: ExperimentsOf, place: SavedPlace) =>
    experiments.savedMetric(place),
  getHoldout: ({ experiments }: ExperimentsOf, place: SavedPlace) => experiments.holdout(place),
  changeSharing: ({ saved }: Store, request: SharedPlace & SharingChanges) =>
    saved.changeSharing(request),
  refreshSharing: ({ saved }: Store, place: SharedPlace) => saved.refreshSharing(place),
  addSharePassword: (
    { saved }: Store,
    request: SharedPlace & Pick<SharePassword, 'hash' | 'note' | 'createdById'>,
  ) => saved.addSharePassword(request),
  removeSharePassword: ({ saved }: Store, request: SharedPlace & { readonly passwordId: number }) =>
    saved.removeSharePassword(request),
  /**
   * Returns whether the link that a token opens needs a password, and its passwords. Returns null if the token opens
   * nothing.
   */
  shareLock({ saved }: Store, token: string): ShareLock | null {
    const view = saved.findShared(token)
    return view === null ? null : accessOf(view.sharing)
  },
  /**
   * Returns the text of the object that a token opens. Anybody may see this text, so it contains no names of users.
   * Returns null if the token opens nothing. Throws the errors of `inRange`.
   */
  showShared(store: ShowingStore, request: SharedRequest): SharedAnswer | null {
    const view = store.saved.findShared(request.token)
    if (view === null) return null
    const { isEmbeddable } = accessOf(view.sharing)
    if (!isUnlocked(view.sharing, request.proof, store.saved.nowMs())) {
      return { isEmbeddable, shown: null }
    }
    const showing = { ...showingOf(store), userById: () => null }
    return { isEmbeddable, shown: shownShared(showing, inRange(view, request.range), request) }
  },
}

/**
 * Returns the buffers of a result that is a text. They are transferred instead of copied. Any other result has none.
 */
export function memoryOfSaved(result: unknown): readonly ArrayBuffer[] {
  if (typeof result !== 'object' || result === null) return []
  if ('shown' in result) return memoryOfSaved(result.shown)
  if (!('questionEnds' in result)) return []
  const { text, questions } = result as ShownText
  return [text.buffer, questions.buffer]
}

function showingOf({ users, projects }: ShowingStore): Showing {
  let byId: ReadonlyMap<number, ReturnType<typeof users.list>[number]> | null = null
  return {
    userById(id) {
      byId ??= new Map(users.list().map((user) => [user.id, user]))
      return byId.get(id) ?? null
    },
    timezoneOf: (projectId) => projects.project(projectId)?.timezone ?? 'UTC',
  }
}
