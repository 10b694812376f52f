/**
 * Insights, dashboards, annotations, and the tokens with which they are shared. Every change is one durable
 * transaction. A change that is not allowed throws a `ServiceError` and changes nothing. saved-table.ts and
 * dashboard-tiles.ts describe how the objects are stored. The tokens have a table of their own:
 *
 * | table        | key                  | value                                     |
 * |--------------|----------------------|-------------------------------------------|
 * | share_tokens | SHA-256 of the token | `SharedPlace` of the shared object, JSON  |
 */
import { randomBytes, randomInt } from 'node:crypto'
import { invalidInput } from '../../base/errors.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { Page, PageRequest } from '../../base/pages.ts'
import {
  ANNOTATIONS_MAX,
  DASHBOARDS_MAX,
  INSIGHTS_MAX,
  PAGE_SAVED_UNITS_MAX,
} from '../../rules/saved/limits.ts'
import {
  type AnnotationFilter,
  type DashboardFilter,
  type InsightFilter,
  type ListRequest,
  listedAnnotations,
  listedDashboards,
  listedInsights,
} from '../../rules/saved/lists.ts'
import {
  type Annotation,
  type AnnotationFields,
  type Dashboard,
  type DashboardFields,
  type DashboardRequest,
  type DashboardView,
  type Insight,
  type InsightFields,
  type InsightRequest,
  type InsightView,
  NEW_ANNOTATION,
  NEW_DASHBOARD,
  NEW_INSIGHT,
  type Saved,
  type SavedPlace,
  type SavedRequest,
  type SharedPlace,
  type SharedView,
  type SharePassword,
  type Sharing,
  type SharingChanges,
  type Tile,
  type TileChange,
  type TileView,
} from '../../rules/saved/saved.ts'
import { accessOf, isOpenAt, requirePasswordRoom } from '../../rules/saved/shared-access.ts'
import { getJson, putJson } from '../lmdb/records.ts'
import { demand } from './checks.ts'
import { DashboardTiles } from './dashboard-tiles.ts'
import { hashKey } from './key-store.ts'
import { type SavedEnvironment, SavedTable } from './saved-table.ts'

/** The project number that stands for the whole organization, in the keys of annotations. */
const ORGANIZATION = 0
const TOKEN_BYTES = 24
const SHORT_ID_CHARACTERS = 8
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/**
 * Reads and changes saved objects. Deleted objects can still be read. If an object does not exist, the result is null.
 */
export class SavedStore {
  readonly #environment: SavedEnvironment
  readonly #tiles: DashboardTiles
  readonly #insights: SavedTable<InsightFields>
  readonly #dashboards: SavedTable<DashboardFields>
  readonly #annotations: SavedTable<AnnotationFields>

  constructor(environment: SavedEnvironment) {
    this.#environment = environment
    this.#tiles = new DashboardTiles(environment)
    this.#insights = new SavedTable(environment, {
      table: 'insights',
      number: 'insight',
      countMax: INSIGHTS_MAX,
      aside: { table: 'insight_queries', member: 'query' },
      onRemove: (insight) => this.#removeInsight(insight),
    })
    this.#dashboards = new SavedTable(environment, {
      table: 'dashboards',
      number: 'flag_dashboard_id',
      countMax: DASHBOARDS_MAX,
      onRemove: (dashboard) => this.#removeDashboard(dashboard),
    })
    this.#annotations = new SavedTable(environment, {
      table: 'annotations',
      number: 'annotation',
      countMax: ANNOTATIONS_MAX,
    })
  }

  /**
   * Returns a page of insights. A page may end early, because the number of UTF-16 code units on it is limited. Reads
   * every insight of the project.
   */
  listInsights({ projectId, filter, page }: ListRequest<InsightFilter>): Page<InsightView> {
    const found = listedInsights(this.#insights.all(projectId), filter)
    const results: InsightView[] = []
    const view = this.#insightViews(projectId)
    let units = 0
    for (const insight of found.slice(page.offset, page.offset + page.limit)) {
      units += this.#insights.bytesAside(insight) + JSON.stringify(insight).length
      if (units > PAGE_SAVED_UNITS_MAX && results.length > 0) break
      results.push(view(this.#insights.whole(insight)))
    }
    return { count: found.length, results }
  }

  getInsight({ projectId, id }: SavedPlace): InsightView | null {
    const insight = this.#insights.get(projectId, id)
    return insight && this.#insightViews(projectId)(insight)
  }

  createInsight({ projectId, userId, fields, dashboards = [] }: InsightRequest): InsightView {
    return this.#environment.save(() => {
      const whole = { ...NEW_INSIGHT, ...fields, short_id: shortId() }
      const insight = this.#insights.add(projectId, userId, whole)
      this.#place(insight, dashboards)
      return this.#insightViews(projectId)(insight)
    })
  }

  changeInsight({ dashboards, ...request }: InsightRequest & SavedPlace): InsightView {
    return this.#environment.save(() => {
      const { projectId, id } = request
      const insight = this.#insights.change(need(this.#insights.get(projectId, id)), request)
      if (dashboards !== undefined) this.#place(insight, dashboards)
      return this.#insightViews(projectId)(insight)
    })
  }

  /**
   * Returns a page of dashboards, without their tiles, filters and variables. A page may end early, because the number
   * of UTF-16 code units on it is limited. Reads every dashboard of the project.
   */
  listDashboards({ projectId, filter, page }: ListRequest<DashboardFilter>): Page<Dashboard> {
    const { filters, variables } = NEW_DASHBOARD
    const plain = this.#dashboards
      .all(projectId)
      .map((one) => ({ ...one, fields: { ...one.fields, filters, variables } }))
    return pageOf(listedDashboards(plain, filter), page)
  }

  /** Returns a dashboard without its tiles. */
  dashboardAlone({ projectId, id }: SavedPlace): Dashboard | null {
    return this.#dashboards.get(projectId, id)
  }

  getDashboard({ projectId, id }: SavedPlace): DashboardView | null {
    const dashboard = this.#dashboards.get(projectId, id)
    return dashboard && this.#dashboardView(dashboard)
  }

  createDashboard({ projectId, userId, fields, tiles }: DashboardRequest): DashboardView {
    return this.#environment.save(() => {
      const dashboard = this.#dashboards.add(projectId, userId, { ...NEW_DASHBOARD, ...fields })
      for (const change of tiles) this.#changeTile(dashboard, change, userId)
      return this.#dashboardView(dashboard)
    })
  }

  changeDashboard(request: DashboardRequest & SavedPlace): DashboardView {
    return this.#environment.save(() => {
      const { projectId, id, userId, tiles } = request
      const before = need(this.#dashboards.get(projectId, id))
      const dashboard = this.#dashboards.change(before, request)
      for (const change of tiles) this.#changeTile(dashboard, change, userId)
      return this.#dashboardView(dashboard)
    })
  }

  /**
   * Returns a page of the annotations of a project and of the whole organization. A page may end early, because the
   * number of UTF-16 code units on it is limited. Reads all these annotations.
   */
  listAnnotations({ projectId, filter, page }: ListRequest<AnnotationFilter>): Page<Annotation> {
    const all = [projectId, ORGANIZATION].flatMap((owner) => this.#annotations.all(owner))
    return pageOf(listedAnnotations(all, filter), page)
  }

  getAnnotation({ projectId, id }: SavedPlace): Annotation | null {
    return this.#annotations.get(projectId, id) ?? this.#annotations.get(ORGANIZATION, id)
  }

  createAnnotation({ projectId, userId, fields }: SavedRequest<AnnotationFields>): Annotation {
    return this.#environment.save(() => {
      const whole = { ...NEW_ANNOTATION, ...fields }
      this.#checkPlaces(projectId, fields)
      return this.#annotations.add(ownerOf(whole, projectId), userId, whole)
    })
  }

  changeAnnotation(request: SavedRequest<AnnotationFields> & SavedPlace): Annotation {
    return this.#environment.save(() => {
      const { projectId, id, fields } = request
      const before = need(this.getAnnotation({ projectId, id }))
      this.#checkPlaces(projectId, fields)
      const owner = ownerOf({ ...before.fields, ...fields }, projectId)
      if (owner !== before.projectId) {
        this.#annotations.remove(before)
        this.#annotations.makeRoom(owner)
      }
      return this.#annotations.change({ ...before, projectId: owner }, request)
    })
  }

  /**
   * Starts, stops or changes the sharing of an object. Stopping the sharing of an object that was never shared stores
   * nothing.
   */
  changeSharing({
    enabled,
    settings,
    access,
    ...place
  }: SharedPlace & SharingChanges): Sharing | null {
    return this.#share(place, (before) => {
      if (before === null && enabled !== true) return null
      return {
        token: before?.token ?? newToken(),
        isEnabled: enabled ?? before?.isEnabled === true,
        settings: settings ?? before?.settings ?? {},
        createdAtMs: before?.createdAtMs ?? this.nowMs(),
        access: { ...accessOf(before), ...access },
      }
    })
  }

  /**
   * Adds a password to the end of the passwords of a shared link. Throws 400 `invalid_input` if the link is not
   * protected by passwords, or has too many.
   */
  addSharePassword({
    hash,
    note,
    createdById,
    ...place
  }: SharedPlace & Pick<SharePassword, 'hash' | 'note' | 'createdById'>): Sharing | null {
    return this.#share(place, (before) => {
      requirePasswordRoom(before)
      const { passwords, ...access } = accessOf(before)
      const id = 1 + Math.max(0, ...passwords.map((one) => one.id))
      const made = { id, hash, note, createdAtMs: this.nowMs(), createdById }
      return { ...before, access: { ...access, passwords: [...passwords, made] } }
    })
  }

  /** Removes a password from a shared link. Throws 404 `not_found` if the link has no such password. */
  removeSharePassword({
    passwordId,
    ...place
  }: SharedPlace & { readonly passwordId: number }): Sharing | null {
    return this.#share(place, (before) => {
      const { passwords, ...access } = accessOf(before)
      const others = passwords.filter(({ id }) => id !== passwordId)
      const isThere = before !== null && others.length < passwords.length
      demand(isThere, 'not_found', 'The link has no such password.')
      return { ...before, access: { ...access, passwords: others } }
    })
  }

  /** Returns the current time of the store's clock, in milliseconds since 1970. */
  nowMs(): number {
    return this.#environment.clock.now()
  }

  /** Gives a shared object a new token. The old token becomes invalid. */
  refreshSharing(place: SharedPlace): Sharing | null {
    return this.#share(place, (before) => {
      demand(
        before !== null,
        'invalid_input',
        'This object is not shared. Set `enabled` to true first.',
      )
      return { ...before, token: newToken() }
    })
  }

  /**
   * Returns the object that is shared under a token. Returns null if the token is invalid, or if the sharing was
   * stopped or has expired.
   */
  findShared(token: string): SharedView | null {
    const place = getJson<SharedPlace>(this.#tokens, hashKey(token))
    if (place === null) return null
    const view = place.kind === 'insights' ? this.getInsight(place) : this.getDashboard(place)
    if (view === null) return null
    const { sharing, isDeleted } = 'insight' in view ? view.insight : view.dashboard
    const isOpen = sharing !== null && isOpenAt(sharing, this.nowMs()) && !isDeleted
    return isOpen ? { sharing, ...view } : null
  }

  #share(
    { kind, ...place }: SharedPlace,
    action: (before: Sharing | null) => Sharing | null,
  ): Sharing | null {
    return this.#environment.save(() => {
      const { projectId, id } = place
      return kind === 'insights'
        ? this.#putSharing(this.#insights, this.#insights.get(projectId, id), kind, action)
        : this.#putSharing(this.#dashboards, this.#dashboards.get(projectId, id), kind, action)
    })
  }

  #putSharing<Fields>(
    table: SavedTable<Fields>,
    found: Saved<Fields> | null,
    kind: SharedPlace['kind'],
    action: (before: Sharing | null) => Sharing | null,
  ): Sharing | null {
    const saved = need(found)
    const sharing = action(saved.sharing)
    this.#forgetToken(saved)
    table.put({ ...saved, sharing })
    const { projectId, id } = saved
    if (sharing !== null) putJson(this.#tokens, hashKey(sharing.token), { kind, projectId, id })
    return sharing
  }

  #forgetToken({ sharing }: Pick<Saved<unknown>, 'sharing'>): void {
    if (sharing !== null) this.#tokens.removeSync(hashKey(sharing.token))
  }

  /** Adds an insight to these dashboards, and removes it from all other dashboards that are not deleted. */
  #place({ projectId, id }: Insight, dashboards: readonly number[]): void {
    const missing = new Set(dashboards)
    for (const tile of this.#tiles.showing(projectId, id)) {
      if (missing.delete(tile.dashboardId)) continue
      const dashboard = this.#dashboards.get(projectId, tile.dashboardId)
      if (dashboard?.isDeleted !== true) this.#tiles.remove(projectId, { ...tile, insightId: id })
    }
    for (const dashboardId of missing) {
      this.#dashboards.named(projectId, dashboardId, 'dashboards')
      this.#tiles.add(projectId, { dashboardId, insightId: id })
    }
  }

  #changeTile(
    { projectId, id: dashboardId }: Dashboard,
    change: TileChange,
    userId: number | null,
  ): void {
    const { insightId = null, body, isRemoved, layouts, color } = change
    const look = { ...(layouts && { layouts }), ...(color !== undefined && { color }) }
    const tiles = this.#tiles.of(projectId, dashboardId)
    const before = tiles.find((tile) =>
      change.id === undefined
        ? insightId !== null && tile.insightId === insightId
        : tile.id === change.id,
    )
    const text = body === undefined ? null : this.#textOf(body, userId, before)
    if (before !== undefined) {
      if (isRemoved) this.#tiles.remove(projectId, before)
      else this.#tiles.put(projectId, { ...before, ...look, ...(text && { text }) })
      return
    }
    const isNew = change.id === undefined && (text !== null || insightId !== null)
    if (!isNew)
      throw invalidInput('tiles', 'need the ID of a tile of the dashboard, or an insight or a text')
    if (insightId !== null) this.#insights.named(projectId, insightId, 'tiles')
    this.#tiles.add(projectId, { dashboardId, insightId, text, ...look })
  }

  #textOf(body: string, userId: number | null, before: Tile | undefined) {
    if (before?.insightId) throw invalidInput('tiles', 'may show an insight or a text, not both')
    const lastModifiedAtMs = this.#environment.clock.now()
    const author = before?.text?.createdById
    return author === undefined
      ? { body, createdById: userId, lastModifiedById: null, lastModifiedAtMs }
      : { body, createdById: author, lastModifiedById: userId, lastModifiedAtMs }
  }

  /**
   * Returns a function that creates the views of a project's insights. It reads each dashboard only once, because it
   * caches them.
   */
  #insightViews(projectId: number): (insight: Insight) => InsightView {
    const shown = new Map<number, boolean>()
    const isShown = (id: number): boolean =>
      getOrAdd(shown, id, () => this.#dashboards.get(projectId, id)?.isDeleted === false)
    return (insight) => {
      const tiles = this.#tiles.showing(projectId, insight.id)
      return { insight, tiles: tiles.filter(({ dashboardId }) => isShown(dashboardId)) }
    }
  }

  #dashboardView(dashboard: Dashboard): DashboardView {
    const { projectId, id } = dashboard
    const view = this.#insightViews(projectId)
    const tiles = this.#tiles.of(projectId, id).flatMap<TileView>((tile) => {
      if (tile.insightId === null) return [{ ...tile, insight: null }]
      const insight = this.#insights.get(projectId, tile.insightId)
      return insight?.isDeleted === false ? [{ ...tile, insight: view(insight) }] : []
    })
    return { dashboard, tiles }
  }

  #checkPlaces(projectId: number, fields: Partial<AnnotationFields>): void {
    const { dashboard_item: insightId = null, dashboard_id: dashboardId = null } = fields
    if (insightId !== null) this.#insights.named(projectId, insightId, 'dashboard_item')
    if (dashboardId !== null) this.#dashboards.named(projectId, dashboardId, 'dashboard_id')
  }

  #removeInsight(insight: Insight): void {
    const { projectId, id: insightId } = insight
    this.#forgetToken(insight)
    for (const tile of this.#tiles.showing(projectId, insightId)) {
      this.#tiles.remove(projectId, { ...tile, insightId })
    }
  }

  #removeDashboard(dashboard: Dashboard): void {
    const { projectId, id } = dashboard
    this.#forgetToken(dashboard)
    for (const tile of this.#tiles.of(projectId, id)) this.#tiles.remove(projectId, tile)
  }

  get #tokens() {
    return this.#environment.table('share_tokens')
  }
}

function ownerOf({ scope }: AnnotationFields, projectId: number): number {
  return scope === 'organization' ? ORGANIZATION : projectId
}

/** Returns `found`. Throws 404 `not_found` if it is null. */
function need<Found>(found: Found | null): Found {
  demand(found !== null, 'not_found', 'The project has no such resource.')
  return found
}

/** Returns one page of a list. It ends early if the number of UTF-16 code units on it reaches the limit. */
function pageOf<Item>(found: readonly Item[], { limit, offset }: PageRequest): Page<Item> {
  const results: Item[] = []
  let units = 0
  for (const item of found.slice(offset, offset + limit)) {
    units += JSON.stringify(item).length
    if (units > PAGE_SAVED_UNITS_MAX && results.length > 0) break
    results.push(item)
  }
  return { count: found.length, results }
}

function newToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url')
}

function shortId(): string {
  const characters = Array.from({ length: SHORT_ID_CHARACTERS }, () => ALPHABET[randomInt(62)])
  return characters.join('')
}
