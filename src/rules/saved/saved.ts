/**
 * The objects that users save in a project: insights, dashboards with their tiles, and annotations. Their fields are
 * stored under the names that clients use. Source: docs/compatibility/saved.md, "Dashboards".
 */
import type { JsonObject } from '../../base/json.ts'

/** An object that users save. `Fields` are the fields of its kind. */
export interface Saved<Fields> {
  readonly id: number
  /** The id of the project. It is 0 for an annotation of the whole organization. */
  readonly projectId: number
  readonly fields: Fields
  /** True if the object is deleted. It is then hidden, and can be restored until its space is needed. */
  readonly isDeleted: boolean
  /** The user who created the object. Null if a command created it. */
  readonly createdById: number | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** How the object is shared. Null if it was never shared. */
  readonly sharing: Sharing | null
}

/** The names of the settings of a shared page. A setting that is absent is off. */
export const SHARING_SETTINGS = [
  'whitelabel',
  'noHeader',
  'showInspector',
  'legend',
  'detailed',
  'hideExtraDetails',
] as const

/** The settings of a shared page that a user has set. */
export type SharingSettings = Readonly<Partial<Record<(typeof SHARING_SETTINGS)[number], boolean>>>

/** A shared link: every visitor who has its token can see the object. */
export interface Sharing {
  readonly token: string
  readonly isEnabled: boolean
  readonly settings: SharingSettings
  /** The time at which the object was first shared, in milliseconds since 1970. */
  readonly createdAtMs: number
  /** The restrictions of the link. Absent if the link never had any. */
  readonly access?: SharingAccess
}

/** The restrictions of a shared link, and what its readers are allowed to do. */
export interface SharingAccess {
  /** True if the link shows nothing to a reader who does not give one of its passwords. */
  readonly isPasswordRequired: boolean
  readonly passwords: readonly SharePassword[]
  /** The time at which the link expires. Null means that it does not expire. */
  readonly expiresAtMs: number | null
  /** True if readers may choose one of the date ranges in `SHARED_RANGES`. */
  readonly isRangeChangeable: boolean
  /** True if pages of other web sites may show the page in a frame. */
  readonly isEmbeddable: boolean
}

/** A password of a shared link. */
export interface SharePassword {
  /** A number that no other password of the link has. */
  readonly id: number
  /** The text that `passwordHashText` in rules/access/password.ts returns. The password itself is not stored. */
  readonly hash: string
  readonly note: string
  readonly createdAtMs: number
  readonly createdById: number | null
}

/** The restrictions of a new link: none. */
export const NEW_ACCESS: SharingAccess = {
  isPasswordRequired: false,
  passwords: [],
  expiresAtMs: null,
  isRangeChangeable: false,
  isEmbeddable: false,
}

/** The changes that a request makes to the sharing of an object. If a member is absent, its value stays as it is. */
export interface SharingChanges {
  readonly enabled?: boolean | undefined
  readonly settings?: SharingSettings | undefined
  readonly access?: Partial<Omit<SharingAccess, 'passwords'>>
}

/** The fields of an insight. */
export interface InsightFields {
  /** A text of 8 letters and digits that identifies the insight in URLs. */
  readonly short_id: string
  readonly name: string | null
  readonly derived_name: string | null
  readonly description: string | null
  /** The query. It is null in the lists that the store returns (see store/catalog/saved-table.ts). */
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

/** What an annotation can belong to, from a single insight to the whole organization. */
export const ANNOTATION_SCOPES = ['dashboard_item', 'dashboard', 'project', 'organization'] as const

/** The fields of an annotation. */
export interface AnnotationFields {
  readonly content: string | null
  /** The moment of the annotation, in ISO 8601 with `Z`. */
  readonly date_marker: string | null
  readonly scope: (typeof ANNOTATION_SCOPES)[number]
  /** The id of the insight that the annotation belongs to. */
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
/** A page with tiles, each of which shows an insight or a text. */
export type Dashboard = Saved<DashboardFields>
/** A note about a moment. */
export type Annotation = Saved<AnnotationFields>

/** The changes that a request makes to an object. If a member is absent, its value stays as it is. */
export interface Changes<Fields> {
  readonly fields: Partial<Fields>
  readonly isDeleted?: boolean | undefined
}

/** The project and the id of an object. */
export interface SavedPlace {
  readonly projectId: number
  readonly id: number
}

/** A request to create or change an object, and the user who sent it. */
export interface SavedRequest<Fields> extends Changes<Fields> {
  readonly projectId: number
  readonly userId: number | null
}

/**
 * A request to create or change an insight. `dashboards` are the dashboards that should show it. If `dashboards` is
 * absent, the insight stays on the same dashboards.
 */
export interface InsightRequest extends SavedRequest<InsightFields> {
  readonly dashboards?: readonly number[] | undefined
}

/** A request to create or change a dashboard, with the changes of its tiles. */
export interface DashboardRequest extends SavedRequest<DashboardFields> {
  readonly tiles: readonly TileChange[]
}

/** A tile of a dashboard: an insight or a text. */
export interface Tile {
  readonly id: number
  readonly dashboardId: number
  readonly insightId: number | null
  readonly text: TileText | null
  /** The position and the size of the tile for each width of the screen, in the form in which clients write them. */
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

/** A change of a tile. If `id` is absent, a new tile is created. */
export interface TileChange {
  readonly id?: number
  readonly insightId?: number
  readonly body?: string
  readonly layouts?: JsonObject
  readonly color?: string | null
  /** Present if the tile must be removed permanently. */
  readonly isRemoved?: true
}

/** An insight, with its tiles on dashboards that are not deleted. */
export interface InsightView {
  readonly insight: Insight
  readonly tiles: readonly Pick<Tile, 'id' | 'dashboardId'>[]
}

/** A tile with the insight that it shows. */
export interface TileView extends Tile {
  readonly insight: InsightView | null
}

/** A dashboard with its tiles, oldest tile first. */
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
