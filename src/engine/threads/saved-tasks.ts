/** Operations on saved things, beside those on the organization: name -> what it does. */
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
  SharingChanges,
} from '../../rules/saved/saved.ts'
import type { OrganizationStore } from '../../store/catalog/organization-store.ts'

type Store = Pick<OrganizationStore, 'saved'>
type AnnotationRequest = SavedRequest<AnnotationFields>

/** Refusals are `ServiceError`s; views of what is not there are null, and those of deleted things are not. */
export const SAVED_HANDLERS = {
  listInsights: ({ saved }: Store, list: ListRequest<InsightFilter>) => saved.listInsights(list),
  getInsight: ({ saved }: Store, place: SavedPlace) => saved.getInsight(place),
  createInsight: ({ saved }: Store, request: InsightRequest) => saved.createInsight(request),
  changeInsight: ({ saved }: Store, request: InsightRequest & SavedPlace) =>
    saved.changeInsight(request),
  listDashboards: ({ saved }: Store, list: ListRequest<DashboardFilter>) =>
    saved.listDashboards(list),
  getDashboard: ({ saved }: Store, place: SavedPlace) => saved.getDashboard(place),
  createDashboard: ({ saved }: Store, request: DashboardRequest) => saved.createDashboard(request),
  changeDashboard: ({ saved }: Store, request: DashboardRequest & SavedPlace) =>
    saved.changeDashboard(request),
  listAnnotations: ({ saved }: Store, list: ListRequest<AnnotationFilter>) =>
    saved.listAnnotations(list),
  getAnnotation: ({ saved }: Store, place: SavedPlace) => saved.getAnnotation(place),
  createAnnotation: ({ saved }: Store, request: AnnotationRequest) =>
    saved.createAnnotation(request),
  changeAnnotation: ({ saved }: Store, request: AnnotationRequest & SavedPlace) =>
    saved.changeAnnotation(request),
  changeSharing: ({ saved }: Store, request: SharedPlace & SharingChanges) =>
    saved.changeSharing(request),
  refreshSharing: ({ saved }: Store, place: SharedPlace) => saved.refreshSharing(place),
  findShared: ({ saved }: Store, token: string) => saved.findShared(token),
}
