/**
 * A shared dashboard or insight, for readers without a key. The page shows the answers of its tiles and nothing else: it
 * reads one file, which the daemon makes for the token in the URL, and has no session.
 */
import { render } from 'preact'
import type { DashboardFilters } from './base/query-address.ts'
import { Empty, Failure, type Query, refusalOf, type Session, Shown, session, time, useLoaded } from './kit.ts'
import { Answer } from './parts/answers.tsx'
import { inOrder, queryOfTile, TileCard, type TileInsight, type TileRecord, titleOf } from './parts/tile.tsx'

/** The content of a token, as the daemon answers it. */
interface SharedContent {
  readonly dashboard?: {
    readonly name: string | null
    readonly description: string
    readonly filters: DashboardFilters
    readonly tiles: readonly TileRecord[]
  }
  readonly insight?: TileInsight
  readonly noHeader?: boolean
  readonly whitelabel?: boolean
  readonly hideExtraDetails?: boolean
}

/** Shows the page. */
export function showShared(): void {
  enterAsReader('UTC')
  render(<SharedPage />, document.body)
}

/** Lets the parts of the console format times in a time zone. A reader of a shared page has no rights at all. */
function enterAsReader(timezone: string): void {
  const project = { id: 0, name: '', timezone, api_token: '' }
  session.value = { user: {}, scopes: [], projects: [project], expires_at: '' } as unknown as Session
}

/** Reads the content of the token in the URL. No cookie is sent. */
async function readShared(signal: AbortSignal): Promise<SharedContent> {
  const url = `${location.pathname.replace(/\/$/, '')}.json`
  const response = await fetch(url, { signal, credentials: 'omit' })
  const body: unknown = await response.json()
  if (!response.ok) throw refusalOf(response.status, body)
  const content = body as SharedContent
  const [first] = content.insight ? [content.insight] : insightsOf(content)
  if (first?.timezone !== undefined) enterAsReader(first.timezone)
  return content
}

function insightsOf({ dashboard }: SharedContent): readonly TileInsight[] {
  return (dashboard?.tiles ?? []).flatMap(({ insight }) => insight ?? [])
}

function SharedPage() {
  const loaded = useLoaded(location.pathname, readShared)
  return (
    <main class="shared">
      <Shown of={loaded}>{(content) => <Content content={content} />}</Shown>
    </main>
  )
}

function Content({ content }: { content: SharedContent }) {
  const { dashboard, insight, noHeader = false, whitelabel = false, hideExtraDetails = false } = content
  const title = insight ? titleOf(insight) : dashboard?.name || 'Dashboard'
  const tiles = dashboard ? inOrder(dashboard.tiles) : insight ? [{ id: 0, layouts: { sm: { w: 12 } }, insight }] : []
  const filters = dashboard?.filters ?? {}
  const times = tiles.flatMap((tile) => tile.insight?.last_refresh ?? []).toSorted()
  return (
    <>
      {!noHeader && (
        <header class="head">
          <h1>
            <bdi>{title}</bdi>
          </h1>
          {dashboard?.description && <p class="quiet">{dashboard.description}</p>}
        </header>
      )}
      {tiles.length === 0 && (
        <Empty title="This dashboard is empty.">Its owner can add insights and texts in the console.</Empty>
      )}
      <div class="grid tiles-grid">
        {tiles.map((tile) => (
          <TileCard key={tile.id} tile={tile} filters={filters} isBrief={hideExtraDetails}>
            {tile.insight && <SharedAnswer insight={tile.insight} filters={filters} />}
          </TileCard>
        ))}
      </div>
      <footer class="quiet">
        {times.length > 0 && <>Updated {time(times[0])}. </>}
        {!whitelabel && 'Tenrec'}
      </footer>
    </>
  )
}

function SharedAnswer({ insight, filters }: { insight: TileInsight; filters: DashboardFilters }) {
  const { result, error } = insight
  if (error) return <Failure error={refusalOf(400, { code: 'query', detail: error.message })} />
  const query = queryOfTile(insight, filters)
  if (query === null || result === null || result === undefined) return <Empty title="There is no data." />
  // Numbers lead to people only for readers with a key.
  const { persons_urls: _, ...asked } = query
  return <Answer query={asked as Query} results={result} />
}
