/**
 * Writes insights and dashboards as finished text with gaps for the results of their queries. A worker thread writes
 * the text. The main thread inserts the bytes of each result into its gap without reading them.
 *
 * ```
 * {"id":7,"name":"Board", ... "tiles":[{"id":1,"insight":{"id":3, ... |}},{"id":2,"insight":{ ... |}}]}
 *                                                         gaps[0] ----^             gaps[1] ----^
 * ```
 */
import { escaped } from '../../base/html/html.ts'
import type { JsonObject } from '../../base/json.ts'
import { bytesOf } from '../../base/rows-writer.ts'
import { questionOf } from './insight-question.ts'
import type { DashboardView, InsightView, SharedView, TileView } from './saved.ts'
import { dashboardMembers, insightMembers, type Showing, tileMembers } from './saved-bodies.ts'
import { accessOf } from './shared-access.ts'
import { type ShownPart, sharedPageParts, sharedTitle } from './shared-page.ts'

/**
 * The format of a text, which decides in which form results are inserted. The format `title` is only the name of the
 * object, in HTML and without results.
 */
export type ShownFormat = 'json' | 'html' | 'title'

/**
 * The text of a page or an answer without the results of its queries. Worker threads run the queries, and the main
 * thread inserts each result at its gap. All of the memory can be transferred to another thread.
 */
export interface ShownText {
  readonly projectId: number
  readonly format: ShownFormat
  /** The text in UTF-8. */
  readonly text: Uint8Array<ArrayBuffer>
  /** The offsets in the text at which results are inserted, in ascending order. */
  readonly gaps: readonly number[]
  /**
   * Which members of JSON are inserted with a result: only members of the insight, or also members of the tile that
   * shows the insight.
   */
  readonly within: 'insight' | 'tile'
  /**
   * The JSON texts of the queries, one after the other. `questionEnds` contains the end of each. An empty text means
   * that there is no query for the gap.
   */
  readonly questions: Uint8Array<ArrayBuffer>
  readonly questionEnds: readonly number[]
}

/** Returns the text of an insight with all members, as JSON. */
export function shownInsight(showing: Showing, view: InsightView): ShownText {
  return joined(view.insight.projectId, 'json', 'insight', insightParts(showing, view))
}

/** Returns the text of a dashboard with all members, as JSON. */
export function shownDashboard(showing: Showing, view: DashboardView): ShownText {
  return joined(view.dashboard.projectId, 'json', 'tile', dashboardParts(showing, view))
}

/**
 * Returns the text of the object that a sharing token opens: as JSON with the given `type`, as a page, or its title
 * only.
 */
export function shownShared(
  showing: Showing,
  view: SharedView,
  { format, type }: { readonly format: ShownFormat; readonly type: 'scene' | 'embed' },
): ShownText {
  const { sharing } = view
  const within = 'insight' in view ? 'insight' : 'tile'
  const { projectId } = 'insight' in view ? view.insight : view.dashboard
  if (format === 'title') return joined(projectId, format, within, [escaped(sharedTitle(view))])
  if (format === 'html') return joined(projectId, format, within, sharedPageParts(view))
  const settings = Object.entries(sharing.settings).filter(([, isSet]) => isSet)
  const { isRangeChangeable } = accessOf(sharing)
  const body = {
    type,
    accessToken: sharing.token,
    themes: [],
    ...(isRangeChangeable && { rangeChangesAllowed: true }),
    ...Object.fromEntries(settings),
  }
  const [name, parts] =
    'insight' in view
      ? ['insight', insightParts(showing, view)]
      : ['dashboard', dashboardParts(showing, view)]
  return joined(projectId, format, within, [`${opened(body)}"${name}":`, ...parts, '}'])
}

function insightParts(showing: Showing, view: InsightView): readonly ShownPart[] {
  return [
    opened(insightMembers(showing, view)),
    { question: questionOf(view.insight.fields.query) },
    '}',
  ]
}

function dashboardParts(
  showing: Showing,
  { dashboard, tiles }: DashboardView,
): readonly ShownPart[] {
  const { filters } = dashboard.fields
  const shown = tiles.flatMap((tile, index) => [
    index === 0 ? '' : ',',
    ...tileParts(showing, tile, filters),
  ])
  return [`${opened(dashboardMembers(showing, dashboard))}"tiles":[`, ...shown, ']}']
}

/**
 * Returns the parts of a tile. The members of the tile that depend on the result of its insight are inserted with that
 * result (see `ShownText.within`).
 */
function tileParts(showing: Showing, tile: TileView, filters: JsonObject): readonly ShownPart[] {
  const members = tileMembers(showing, tile)
  if (tile.insight === null) {
    return [JSON.stringify({ ...members, insight: null, last_refresh: null, error: null })]
  }
  const { query } = tile.insight.insight.fields
  const insight = opened(insightMembers(showing, tile.insight))
  return [`${opened(members)}"insight":${insight}`, { question: questionOf(query, filters) }, '}']
}

/** Returns the JSON of an object without its closing brace, so that more members can follow. */
function opened(members: object): string {
  return `${JSON.stringify(members).slice(0, -1)},`
}

function joined(
  projectId: number,
  format: ShownFormat,
  within: ShownText['within'],
  parts: readonly ShownPart[],
): ShownText {
  const texts: string[] = []
  const gaps: number[] = []
  const questions: string[] = []
  const questionEnds: number[] = []
  let [textBytes, questionBytes] = [0, 0]
  for (const part of parts) {
    if (typeof part === 'string') {
      texts.push(part)
      textBytes += Buffer.byteLength(part)
      continue
    }
    const question = part.question === null ? '' : JSON.stringify(part.question)
    gaps.push(textBytes)
    questions.push(question)
    questionBytes += Buffer.byteLength(question)
    questionEnds.push(questionBytes)
  }
  return {
    projectId,
    format,
    within,
    gaps,
    questionEnds,
    text: bytesOf(texts),
    questions: bytesOf(questions),
  }
}
