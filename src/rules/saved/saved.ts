/**
 * The objects that users save in a project: insights, dashboards with their tiles, and annotations. Their fields are
 * stored under the names that clients use. Source: docs/compatibility/saved.md, "Dashboards".
 */
import type { JsonObject } from '../../base/json.ts'

/** Any saved object. */
export interface Saved<Fields> {
  readonly id: number
  /** The project. It is 0 for an annotation of the whole organization. */
  readonly projectId: number
  readonly fields: Fields
  /** True if the object is hidden, until it is restored or its space is needed. */
  readonly isDeleted: boolean
  /** The user who created the object. Null if a command created it. */
  readonly createdById: number | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** The sharing of the object. Null if it was never shared. */
  readonly sharing: Sharing | null
}

/** The settings of a shared page. Absent settings are off. */
export const SHARING_SETTINGS = [
  'whitelabel',
  'noHeader',
  'showInspector',
  'legend',
  'detailed',
  'hideExtraDetails',
] as const

/** The settings of `SHARING_SETTINGS` that a user has set. */
export type SharingSettings = Readonly<Partial<Record<(typeof SHARING_SETTINGS)[number], boolean>>>

/** The way in which an object is shown to every visitor who has its token. */
export interface Sharing {
  readonly token: string
  readonly isEnabled: boolean
  readonly settings: SharingSettings
  /** The time at which it was first shared. */
  readonly createdAtMs: number
  /** The restrictions of the link. Absent in records of links that never had any. */
  readonly access?: SharingAccess
}

/** The restrictions of a shared link, and what its readers may do. */
export interface SharingAccess {
  /** If true, the link shows nothing without one of its passwords. */
  readonly isPasswordRequired: boolean
  readonly passwords: readonly SharePassword[]
  /** The time from which the link opens nothing. Null means that it does not expire. */
  readonly expiresAtMs: number | null
  /** If true, readers may choose one of the ranges of `SHARED_RANGES`. */
  readonly isRangeChangeable: boolean
  /** If true, pages of other origins may show the page in a frame. */
  readonly isEmbeddable: boolean
}

/** A password of a link. */
export interface SharePassword {
  /** Unique among the passwords of the link. */
  readonly id: number
  /** The text of `passwordHashText` in rules/access/password.ts. The password itself is not stored. */
  readonly hash: string
  readonly note: string
  readonly createdAtMs: number
  readonly createdById: number | null
}

/** The restrictions of a new link. */
export const NEW_ACCESS: SharingAccess = {
  isPasswordRequired: false,
  passwords: [],
  expiresAtMs: null,
  isRangeChangeable: false,
  isEmbeddable: false,
}

/** Changes of the sharing. Members that are absent stay as they are. */
export interface SharingChanges {
  readonly enabled?: boolean | undefined
  readonly settings?: SharingSettings | undefined
  readonly access?: Partial<Omit<SharingAccess, 'passwords'>>
}

/** The fields of an insight. */
export interface InsightFields {
  /** A text of 8 letters and digits for addresses. */
  readonly short_id: string
  readonly name: string | null
  readonly derived_name: string | null
  readonly description: string | null
  /** The query. It is null in lists of the store; see store/catalog/saved-table.ts. */
  readonly query: JsonObject | null
  readonly saved: boolean
  readonly favorited: boolean
  readonly tags: readonly string[]
}

/** The default fields of a new insight. */
export const NEW_INSIGHT: Omit<InsightFields, 'short_id'> = {
  name: null,
  derived_name: null,
  description: null,
  query: null,
  saved: false,
  favorited: false,
  tags: [],
}

/** The fields of a dashboard. */
export interface DashboardFields {
  readonly name: string | null
  readonly description: string
  readonly pinned: boolean
  readonly tags: readonly string[]
  readonly filters: JsonObject
  readonly variables: JsonObject
}

/** The default fields of a new dashboard. */
export const NEW_DASHBOARD: DashboardFields = {
  name: null,
  description: '',
  pinned: false,
  tags: [],
  filters: {},
  variables: {},
}

/** The possible subjects of an annotation, from one insight to the whole organization. */
export const ANNOTATION_SCOPES = ['dashboard_item', 'dashboard', 'project', 'organization'] as const

/** The fields of an annotation. */
export interface AnnotationFields {
  readonly content: string | null
  /** The moment that the annotation belongs to, in ISO 8601 with `Z`. */
  readonly date_marker: string | null
  readonly scope: (typeof ANNOTATION_SCOPES)[number]
  /** The number of an insight. */
  readonly dashboard_item: number | null
  readonly dashboard_id: number | null
}

/** The default fields of a new annotation. */
export const NEW_ANNOTATION: AnnotationFields = {
  content: null,
  date_marker: null,
  scope: 'dashboard_item',
  dashboard_item: null,
  dashboard_id: null,
}

/** A saved query with a name. */
export type Insight = Saved<InsightFields>
/** A set of tiles. */
export type Dashboard = Saved<DashboardFields>
/** A note at a moment. */
export type Annotation = Saved<AnnotationFields>

/** Changes of an object. Members that are absent stay as they are. */
export interface Changes<Fields> {
  readonly fields: Partial<Fields>
  readonly isDeleted?: boolean | undefined
}

/** The project and the number of an object. */
export interface SavedPlace {
  readonly projectId: number
  readonly id: number
}

/** The fields of an object in a request, and the requesting user. */
export interface SavedRequest<Fields> extends Changes<Fields> {
  readonly projectId: number
  readonly userId: number | null
}

/** An insight and the dashboards that should show it. If `dashboards` is absent, the insight stays where it is. */
export interface InsightRequest extends SavedRequest<InsightFields> {
  readonly dashboards?: readonly number[] | undefined
}

/** A dashboard and the changes of its tiles. */
export interface DashboardRequest extends SavedRequest<DashboardFields> {
  readonly tiles: readonly TileChange[]
}

/** A tile of a dashboard: an insight or a text. */
export interface Tile {
  readonly id: number
  readonly dashboardId: number
  readonly insightId: number | null
  readonly text: TileText | null
  /** The position and size by screen width, as clients write them. */
  readonly layouts: JsonObject
  readonly color: string | null
}

/** The text of a tile, in Markdown. */
export interface TileText {
  readonly body: string
  readonly createdById: number | null
  readonly lastModifiedById: number | null
  readonly lastModifiedAtMs: number
}

/** A change of one tile. Without an `id`, it creates a new tile. */
export interface TileChange {
  readonly id?: number
  readonly insightId?: number
  readonly body?: string
  readonly layouts?: JsonObject
  readonly color?: string | null
  /** True if the tile is removed for good. */
  readonly isRemoved?: true
}

/** An insight with the tiles that show it on dashboards that are not deleted. */
export interface InsightView {
  readonly insight: Insight
  readonly tiles: readonly Pick<Tile, 'id' | 'dashboardId'>[]
}

/** A tile with its insight. */
export interface TileView extends Tile {
  readonly insight: InsightView | null
}

/** A dashboard with its tiles, oldest first. */
export interface DashboardView {
  readonly dashboard: Dashboard
  readonly tiles: readonly TileView[]
}

/** The object that a sharing token opens. */
export type SharedView = { readonly sharing: Sharing } & (DashboardView | InsightView)

/** An object that can be shared. */
export interface SharedPlace extends SavedPlace {
  readonly kind: 'insights' | 'dashboards'
}
