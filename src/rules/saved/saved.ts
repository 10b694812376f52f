/**
 * What people save in a project: insights, dashboards with their tiles, annotations. What they write is kept
 * under the names that clients know. Source: docs/compatibility/saved.md, "Dashboards".
 */
import type { JsonObject } from '../../base/json.ts'

/** Anything saved. */
export interface Saved<Fields> {
  readonly id: number
  /** 0: an annotation of the whole organization. */
  readonly projectId: number
  readonly fields: Fields
  /** Hidden, until somebody brings it back or its place is needed. */
  readonly isDeleted: boolean
  /** Null: a command. */
  readonly createdById: number | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** Null: it was never shared. */
  readonly sharing: Sharing | null
}

/** The settings of a shared page; those that are absent are off. */
export const SHARING_SETTINGS = [
  'whitelabel',
  'noHeader',
  'showInspector',
  'legend',
  'detailed',
  'hideExtraDetails',
] as const

/** Which of `SHARING_SETTINGS` somebody has set. */
export type SharingSettings = Readonly<Partial<Record<(typeof SHARING_SETTINGS)[number], boolean>>>

/** How a thing is shown to whoever has its token. */
export interface Sharing {
  readonly token: string
  readonly isEnabled: boolean
  readonly settings: SharingSettings
  /** When it was first shared. */
  readonly createdAtMs: number
}

/** What can be changed of it; what is absent stays. */
export interface SharingChanges {
  readonly enabled?: boolean | undefined
  readonly settings?: SharingSettings | undefined
}

/** What is said of an insight. */
export interface InsightFields {
  /** 8 letters and digits, for addresses. */
  readonly short_id: string
  readonly name: string | null
  readonly derived_name: string | null
  readonly description: string | null
  /** Null in lists of the store; see store/catalog/saved-table.ts. */
  readonly query: JsonObject | null
  readonly saved: boolean
  readonly favorited: boolean
  readonly tags: readonly string[]
}

/** A new insight of which nothing is said. */
export const NEW_INSIGHT: Omit<InsightFields, 'short_id'> = {
  name: null,
  derived_name: null,
  description: null,
  query: null,
  saved: false,
  favorited: false,
  tags: [],
}

/** What is said of a dashboard. */
export interface DashboardFields {
  readonly name: string | null
  readonly description: string
  readonly pinned: boolean
  readonly tags: readonly string[]
  readonly filters: JsonObject
  readonly variables: JsonObject
}

/** A new dashboard of which nothing is said. */
export const NEW_DASHBOARD: DashboardFields = {
  name: null,
  description: '',
  pinned: false,
  tags: [],
  filters: {},
  variables: {},
}

/** What an annotation is about, from one insight to everything. */
export const ANNOTATION_SCOPES = ['dashboard_item', 'dashboard', 'project', 'organization'] as const

/** What is said of an annotation. */
export interface AnnotationFields {
  readonly content: string | null
  /** The moment that it is about: ISO 8601 with `Z`. */
  readonly date_marker: string | null
  readonly scope: (typeof ANNOTATION_SCOPES)[number]
  /** Number of an insight. */
  readonly dashboard_item: number | null
  readonly dashboard_id: number | null
}

/** A new annotation of which nothing is said. */
export const NEW_ANNOTATION: AnnotationFields = {
  content: null,
  date_marker: null,
  scope: 'dashboard_item',
  dashboard_item: null,
  dashboard_id: null,
}

/** A question with a name. */
export type Insight = Saved<InsightFields>
/** A board of tiles. */
export type Dashboard = Saved<DashboardFields>
/** A note at a moment. */
export type Annotation = Saved<AnnotationFields>

/** What can be changed of a thing; what is absent stays. */
export interface Changes<Fields> {
  readonly fields: Partial<Fields>
  readonly isDeleted?: boolean | undefined
}

/** Which thing of which project. */
export interface SavedPlace {
  readonly projectId: number
  readonly id: number
}

/** What a request says of a thing of a project, and who asks. */
export interface SavedRequest<Fields> extends Changes<Fields> {
  readonly projectId: number
  readonly userId: number | null
}

/** An insight and the dashboards that it is to be on; absent: it stays where it is. */
export interface InsightRequest extends SavedRequest<InsightFields> {
  readonly dashboards?: readonly number[] | undefined
}

/** A dashboard and its tiles that change. */
export interface DashboardRequest extends SavedRequest<DashboardFields> {
  readonly tiles: readonly TileChange[]
}

/** What stands on a dashboard: an insight or a text. */
export interface Tile {
  readonly id: number
  readonly dashboardId: number
  readonly insightId: number | null
  readonly text: TileText | null
  /** Place and size by width of the screen, as clients write them. */
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

/** A change of one tile: of that with the id, else of a new one. */
export interface TileChange {
  readonly id?: number
  readonly insightId?: number
  readonly body?: string
  readonly layouts?: JsonObject
  readonly color?: string | null
  /** It goes for good. */
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

/** What a token of sharing opens. */
export type SharedView = { readonly sharing: Sharing } & (DashboardView | InsightView)

/** Something that can be shared. */
export interface SharedPlace extends SavedPlace {
  readonly kind: 'insights' | 'dashboards'
}
