/**
 * The page of a dashboard: its tiles with saved queries and texts, a date range and filters for all tiles, and a link
 * for people without a key.
 */
import { useState } from 'preact/hooks'
import { type DashboardFilters, datesOf, rangeWords } from '../base/query-address.ts'
import {
  AddFilter,
  AddressFields,
  Ask,
  act,
  ago,
  askQuery,
  Button,
  Choice,
  Dialog,
  Empty,
  FilterChips,
  Form,
  Got,
  go,
  inProjectPath,
  may,
  Page,
  type PropertyFilter,
  pageId,
  pageOf,
  patch,
  project,
  query,
  RANGES,
  Shown,
  say,
  useGet,
  useLoaded,
} from '../kit.ts'
import { Answer } from '../parts/answers.tsx'
import {
  inOrder,
  placesOf,
  queryOfTile,
  TileCard,
  type TileInsight,
  type TileRecord,
  titleOf,
  widthOf,
} from '../parts/tile.tsx'
import { ShareButton } from './dashboard/share.tsx'
import { Notes } from './notes/notes.tsx'

const REFRESHES = [
  ['0', 'Refresh: never'],
  ['1', 'Refresh: every minute'],
  ['10', 'Refresh: every 10 minutes'],
] as const

const own = () => ({ id: Number(pageId.value) })
const change = (changes: Readonly<Record<string, unknown>>) => patch('project/dashboards/{id}/', own(), changes)

interface Dashboard {
  readonly name: string | null
  readonly description: string
  readonly filters: DashboardFilters
  readonly tiles: readonly TileRecord[]
}

/** The page "Dashboard". */
export default function DashboardPage() {
  // The dashboard is requested without results. Each tile runs its own query, so that the page does not wait for the
  // slowest one.
  return (
    <Got route="project/dashboards/{id}/" values={{ ...own(), results: 'false' }}>
      {(data) => {
        const dashboard = data as unknown as Dashboard
        return (
          <>
            <nav class="breadcrumb" aria-label="Breadcrumb">
              <a href={pageOf('/dashboards')}>Dashboards</a>
            </nav>
            <Page title={dashboard.name ?? 'Dashboard'} aside={<Controls dashboard={dashboard} />}>
              {dashboard.description !== '' && <p class="quiet">{dashboard.description}</p>}
              <FilterBar filters={dashboard.filters} />
              <Tiles dashboard={dashboard} />
              <Notes dashboard={own().id} />
            </Page>
          </>
        )
      }}
    </Got>
  )
}

function Controls({ dashboard: { name, description, tiles } }: { dashboard: Dashboard }) {
  async function remove() {
    await change({ deleted: true })
    say(`“${name}” is deleted. Its insights stay.`)
    go(inProjectPath('/dashboards'))
  }
  return (
    <>
      <AddressFields
        fields={{ refresh: { kind: 'choice', label: 'Refresh', isQuiet: true, options: REFRESHES, value: '0' } }}
      />
      {may('dashboard:write') && (
        <>
          <Ask
            label="Rename"
            title="Rename the dashboard"
            fields={{
              name: { label: 'Name', value: name ?? '', isRequired: true },
              description: { label: 'Description', value: description },
            }}
            submit={change}
          />
          {may('sharing_configuration:write') && <ShareButton kind="dashboards" {...own()} />}
          <Ask label="Delete" title={`Delete “${name}”?`} submit={remove}>
            Its insights stay. People who have its shared link see nothing any more.
          </Ask>
          <AddTile tiles={tiles} />
        </>
      )}
    </>
  )
}

/**
 * Two special values of the field for the date range. With `OWN`, each insight keeps its own range. `OTHER` stands for
 * a range that is not in the list.
 */
const [OWN, OTHER] = ['', 'other']

/** The date range and the filters of all tiles. They are saved with the dashboard. */
function FilterBar({ filters }: { filters: DashboardFilters }) {
  const { date_from: from, properties } = filters
  const list = (properties ?? []) as readonly PropertyFilter[]
  const canWrite = may('dashboard:write') && may('query:read')
  const save = (changes: DashboardFilters) => act(change({ filters: { ...filters, ...changes } }), 'Saved.')
  const value = !from ? OWN : (RANGES.find((one) => isRange(one.value, filters))?.value ?? OTHER)
  const words = rangeWords({ kind: '', dateRange: { date_from: from, date_to: filters.date_to } }) ?? `From ${from}`
  const options = [
    [OWN, 'Range: as in each insight'],
    ...RANGES.map((one) => [one.value, one.label] as const),
    ...(value === OTHER ? [[OTHER, words] as const] : []),
  ] as const
  if (!canWrite) return from ? <p class="quiet">{words}</p> : null
  return (
    <div class="row filter-bar">
      <Choice<string>
        label="Range of all tiles"
        isQuiet
        value={value}
        options={options}
        change={(next) => void save(next === OWN ? { date_from: null, date_to: null } : datesOf(next))}
      />
      <FilterChips filters={list} change={(next) => void save({ properties: next })} />
      <AddFilter add={(filter) => void save({ properties: [...list, filter] })} />
    </div>
  )
}

function isRange(value: string, { date_from: from, date_to: to }: DashboardFilters): boolean {
  const dates = datesOf(value)
  return dates.date_from === from && (dates.date_to ?? null) === (to ?? null)
}

function Tiles({ dashboard: { tiles, filters } }: { dashboard: Dashboard }) {
  const sorted = inOrder(tiles)
  const widths = sorted.map(widthOf)
  if (tiles.length === 0) {
    return (
      <Empty title="This dashboard is empty.">
        Press “Add tile” to choose a saved insight or to write a text. Or{' '}
        <a href={pageOf(`/explore?dashboard=${pageId.value}`)}>explore a new question</a> and save it here.
      </Empty>
    )
  }
  /** Saves the order and the sizes of all tiles. */
  function arrange(order: readonly TileRecord[], sizes: readonly number[]) {
    const places = placesOf(order, sizes)
    const changed = order.map(({ id, layouts }, at) => ({ id, layouts: { ...layouts, sm: places[at] } }))
    return act(change({ tiles: changed }), 'The layout is saved.')
  }
  function move(at: number, to: number) {
    const [tile, size] = [sorted[at], widths[at]]
    if (tile === undefined || size === undefined) return undefined
    return arrange(sorted.toSpliced(at, 1).toSpliced(to, 0, tile), widths.toSpliced(at, 1).toSpliced(to, 0, size))
  }
  return (
    <div class="grid tiles-grid">
      {sorted.map((tile, at) => (
        <TileCard
          key={tile.id}
          tile={tile}
          filters={filters}
          aside={
            <TileControls
              tile={tile}
              earlier={at > 0 ? () => move(at, at - 1) : null}
              later={at < sorted.length - 1 ? () => move(at, at + 1) : null}
              resize={(size) => arrange(sorted, widths.with(at, size))}
            />
          }
        >
          {tile.insight && <InsightAnswer insight={tile.insight} filters={filters} />}
        </TileCard>
      ))}
    </div>
  )
}

interface TileControlsProps {
  readonly tile: TileRecord
  /** Swaps the tile with the previous one. Null for the first tile. `later` swaps it with the next one. */
  readonly earlier: (() => unknown) | null
  readonly later: (() => unknown) | null
  readonly resize: (width: number) => unknown
}

const SIZES = [
  ['4', 'A third of the width'],
  ['6', 'Half of the width'],
  ['12', 'Full width'],
] as const

function TileControls({ tile, earlier, later, resize }: TileControlsProps) {
  const { id, insight, text } = tile
  const title = insight ? titleOf(insight) : 'Text'
  const width = widthOf(tile)
  const size = SIZES.find(([value]) => Number(value) >= width)?.[0] ?? '12'
  const remove = () => change({ tiles: [{ id, deleted: true }] })
  return (
    <span class="row">
      {insight && (
        <a href={pageOf(`/explore?insight=${insight.short_id}&dashboard=${pageId.value}`)} aria-label={`Open ${title}`}>
          Open
        </a>
      )}
      {may('dashboard:write') && (
        <details class="tile-menu">
          <summary aria-label={`Change the tile ${title}`}>⋯</summary>
          <div class="tile-menu-items">
            {text && (
              <Ask
                label="Edit text"
                title="Edit the text"
                action="Save"
                fields={TEXT_FIELDS(text.body ?? '')}
                submit={({ body }) => change({ tiles: [{ id, text: { body } }] })}
              />
            )}
            {earlier && <Button press={earlier}>Move earlier</Button>}
            {later && <Button press={later}>Move later</Button>}
            <Choice<string> label="Size" isQuiet value={size} options={SIZES} change={(next) => resize(Number(next))} />
            <Ask label="Remove tile" title={`Remove “${title}” from this dashboard?`} submit={remove}>
              {insight ? 'The insight itself stays.' : 'The text is deleted.'}
            </Ask>
          </div>
        </details>
      )}
    </span>
  )
}

const TEXT_FIELDS = (value: string) =>
  ({
    body: {
      label: 'Text',
      type: 'area',
      value,
      isRequired: true,
      hint: 'Markdown: **bold**, # heading, - list, [link](https://…)',
    },
  }) as const

/** The dialog that adds a tile: an existing insight, a new insight, or a text. */
function AddTile({ tiles }: { tiles: readonly TileRecord[] }) {
  const [isOpen, setOpen] = useState(false)
  const close = () => setOpen(false)
  return (
    <>
      <button type="button" class="primary" onClick={() => setOpen(true)}>
        Add tile
      </button>
      {isOpen && (
        <Dialog title="Add a tile" close={close}>
          <h3>An insight</h3>
          <InsightList shown={tiles} close={close} />
          <p>
            <a href={pageOf(`/explore?dashboard=${pageId.value}`)}>Explore a new question</a>
          </p>
          <h3>A text</h3>
          <Form
            action="Add the text"
            fields={TEXT_FIELDS('')}
            submit={async ({ body }) => {
              await change({ tiles: [{ text: { body } }] })
              close()
            }}
          />
        </Dialog>
      )}
    </>
  )
}

function InsightList({ shown, close }: { shown: readonly TileRecord[]; close: () => void }) {
  const loaded = useGet('project/insights/', { limit: 200 } as never)
  const ids = new Set(shown.flatMap(({ insight }) => insight?.id ?? []))
  async function add(id: number) {
    if (await act(change({ tiles: [{ insight: id }] }), 'The insight is added.')) close()
  }
  return (
    <Shown of={loaded}>
      {({ results }) => {
        const others = results.filter(({ id }) => !ids.has(id))
        if (others.length === 0) return <p class="none">Every saved insight is on this dashboard already.</p>
        return (
          <ul class="pick-list">
            {others.map((insight) => (
              <li key={insight.id}>
                <bdi>{titleOf(insight)}</bdi>
                <Button press={() => add(insight.id)} aria-label={`Add ${titleOf(insight)}`}>
                  Add
                </Button>
              </li>
            ))}
          </ul>
        )
      }}
    </Shown>
  )
}

function InsightAnswer({ insight, filters }: { insight: TileInsight; filters: DashboardFilters }) {
  const asked = queryOfTile(insight, filters)
  if (asked === null) return <Empty title="This insight has no query." />
  return <Asked asked={{ ...asked, persons_urls: true }} />
}

function Asked({ asked }: { asked: Parameters<typeof askQuery>[0] }) {
  const given = query.value.get('refresh')
  // Anybody can write a URL, so only the intervals that the menu offers are accepted.
  const everyMs = REFRESHES.some(([minutes]) => minutes === given) ? Number(given) * 60_000 : 0
  const ask = async (signal: AbortSignal) => {
    const results = await askQuery<unknown>(asked, signal)
    return { query: asked, results, at: new Date().toISOString() }
  }
  const loaded = useLoaded(`${project.value.id} ${JSON.stringify(asked)}`, ask, { everyMs })
  return (
    <Shown of={loaded}>
      {({ at, ...answer }) => (
        <>
          <Answer {...answer} />
          <p class="quiet updated">Updated {ago(at) === 'now' ? 'just now' : ago(at)}</p>
        </>
      )}
    </Shown>
  )
}
