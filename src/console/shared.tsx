/**
 * The page that shows a shared dashboard or insight to readers without a key. It shows only the answers of its tiles.
 * It has no session. All its data is one file, which the daemon makes for the token in the URL.
 */
import { type ComponentChildren, render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { DashboardFilters } from './base/query-address.ts'
import {
  Choice,
  Empty,
  Failure,
  Form,
  type Query,
  RANGES,
  refusalOf,
  type Session,
  Shown,
  session,
  time,
  useLoaded,
} from './kit.ts'
import { Answer } from './parts/answers.tsx'
import { inOrder, queryOfTile, TileCard, type TileInsight, type TileRecord, titleOf } from './parts/tile.tsx'

/** What the daemon returns for the token in the URL. */
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
  readonly rangeChangesAllowed?: boolean
}

/** The path of the page, without a slash at its end. */
const PLACE = location.pathname.replace(/\/$/, '')
/** The name under which this browser tab stores the proof that its reader knew the password. */
const PROOF = `tenrec-share ${PLACE}`
const UNAUTHORIZED = 401

/** Shows the page. */
export function showShared(): void {
  enterAsReader('UTC')
  render(<SharedPage />, document.body)
}

/**
 * Creates a session without rights, because the components of the console need one. Its project has the time zone in
 * which times are shown.
 */
function enterAsReader(timezone: string): void {
  const project = { id: 0, name: '', timezone, api_token: '' }
  session.value = { user: {}, scopes: [], projects: [project], expires_at: '' } as unknown as Session
}

/** Returns the proof that this tab has stored. With `next`, stores this proof first. */
function proofOfTab(next?: string): string {
  try {
    if (next) sessionStorage.setItem(PROOF, next)
    return sessionStorage.getItem(PROOF) ?? ''
  } catch {
    // A page that another site embeds may have no storage. Its reader must enter the password again after a reload.
    return next ?? ''
  }
}

/** Exchanges the password for a proof. Throws an `ApiError`. */
async function askProof(password: string): Promise<string> {
  const body = await answerOf(PLACE, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ password }),
  })
  return (body as { readonly shareToken: string }).shareToken
}

/** Returns the JSON of an answer. The request is sent without cookies. Throws an `ApiError`. */
async function answerOf(url: string, options: RequestInit): Promise<unknown> {
  const response = await fetch(url, { ...options, credentials: 'omit' })
  const body: unknown = await response.json()
  if (!response.ok) throw refusalOf(response.status, body)
  return body
}

/** Reads the object that the token in the URL opens. */
async function readShared(range: string, proof: string, signal: AbortSignal): Promise<SharedContent> {
  const query = range === '' ? '' : `?range=${encodeURIComponent(range)}`
  const headers = proof === '' ? {} : { Authorization: `Bearer ${proof}` }
  const content = (await answerOf(`${PLACE}.json${query}`, { signal, headers })) as SharedContent
  const [first] = content.insight ? [content.insight] : insightsOf(content)
  if (first?.timezone !== undefined) enterAsReader(first.timezone)
  return content
}

function insightsOf({ dashboard }: SharedContent): readonly TileInsight[] {
  return (dashboard?.tiles ?? []).flatMap(({ insight }) => insight ?? [])
}

function SharedPage() {
  const [proof, setProof] = useState(() => proofOfTab())
  const [range, setRange] = useState(() => new URLSearchParams(location.search).get('range') ?? '')
  const loaded = useLoaded(`${PLACE} ${range} ${proof}`, (signal) => readShared(range, proof, signal))
  function choose(next: string) {
    history.replaceState(null, '', next === '' ? PLACE : `${PLACE}?range=${next}`)
    setRange(next)
  }
  if (loaded.error?.status === UNAUTHORIZED) return <Locked enter={(next) => setProof(proofOfTab(next))} />
  return (
    <main class="shared">
      <Shown of={loaded}>
        {(content) => (
          <Content content={content}>
            {content.rangeChangesAllowed && (
              <Choice<string>
                label="Time range"
                isQuiet
                value={range}
                options={[
                  ['', content.dashboard ? 'Range: as in each chart' : 'Range: as in the chart'],
                  ...RANGES.map((one) => [one.value, one.label] as const),
                ]}
                change={choose}
              />
            )}
          </Content>
        )}
      </Shown>
    </main>
  )
}

/** Asks the reader for the password of the link. */
function Locked({ enter }: { enter: (proof: string) => void }) {
  return (
    <main class="shared locked">
      <header class="head">
        <h1>This page needs a password</h1>
      </header>
      <Form
        action="Open"
        fields={{
          password: { label: 'Password', type: 'password', complete: 'current-password', isRequired: true },
        }}
        submit={async ({ password }) => enter(await askProof(password))}
      >
        <p class="quiet">You get it from the person who sent you the link.</p>
      </Form>
    </main>
  )
}

function Content({ content, children }: { content: SharedContent; children: ComponentChildren }) {
  const { dashboard, insight, noHeader = false, whitelabel = false, hideExtraDetails = false } = content
  const title = insight ? titleOf(insight) : dashboard?.name || 'Dashboard'
  const tiles = dashboard ? inOrder(dashboard.tiles) : insight ? [{ id: 0, layouts: { sm: { w: 12 } }, insight }] : []
  const filters = dashboard?.filters ?? {}
  useEffect(() => {
    document.title = title
  }, [title])
  const times = tiles.flatMap((tile) => tile.insight?.last_refresh ?? []).toSorted()
  return (
    <>
      {!noHeader && (
        <header class="head">
          <h1>
            <bdi>{title}</bdi>
          </h1>
          {children}
        </header>
      )}
      {!noHeader && dashboard?.description && <p class="quiet">{dashboard.description}</p>}
      {noHeader && children}
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
  // Only readers with a key can open the lists of people whom the numbers count, so the query does not ask for their
  // URLs.
  const { persons_urls: _, ...asked } = query
  return <Answer query={asked as Query} results={result} />
}
