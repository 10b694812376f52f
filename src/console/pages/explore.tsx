/**
 * The page "Explore", with the query builder on the left and the answer on the right. The URL contains both. If a saved
 * insight is opened here, the page also has its title, and buttons that save, rename and delete it.
 */
import { useEffect, useRef, useState } from 'preact/hooks'
import { breakdownsOf, innerQuery, isSame, toAddress } from '../base/query-address.ts'
import {
  Ask,
  act,
  askQuery,
  Button,
  Card,
  Empty,
  eventLabel,
  go,
  inProjectPath,
  may,
  Page,
  pageOf,
  patch,
  path,
  post,
  project,
  propertyLabel,
  query,
  RangePicker,
  type Shapes,
  Shown,
  say,
  Tabs,
  useGet,
  useLoaded,
} from '../kit.ts'
import { Answer } from '../parts/answers.tsx'
import { ShareButton } from './dashboard/share.tsx'
import { Builder } from './explore/builder.tsx'
import { choices, isWhole, longQuery, question, SAVED, WAYS, way } from './explore/question.ts'
import { Totals } from './explore/totals.tsx'
import { Notes } from './notes/notes.tsx'

type Insight = Shapes['InsightItem']

/** A URL with more characters is avoided, because servers may refuse it when the page is loaded again. */
const ADDRESS_CHARACTERS_MAX = 3000
/** The URL parameters that do not describe the query. */
const PLACE = ['insight', 'dashboard']

/** The page "Explore". */
export default function ExplorePage() {
  const shortId = query.value.get('insight')
  return shortId === null ? <Explorer insight={null} /> : <SavedInsight key={shortId} shortId={shortId} />
}

/** Reads the opened insight. If the URL contains no query, writes the query of the insight into the URL. */
function SavedInsight({ shortId }: { shortId: string }) {
  const loaded = useGet('project/insights/', { short_id: shortId, limit: 1 } as never)
  const [insight] = loaded.data?.results ?? []
  const saved = insight && innerQuery(insight.query)
  const isAsked = query.value.has('way')
  useEffect(() => {
    if (!saved) return
    longQuery.value = saved
    if (!isAsked) openQuery(saved)
  }, [insight])
  return (
    <Shown of={loaded}>
      {() => {
        if (insight === undefined)
          return <Empty title="There is no such insight.">It was deleted, or belongs to another project.</Empty>
        if (saved === null) return <Empty title="This insight has no query.">{insight.name}</Empty>
        return isAsked && <Explorer insight={insight} />
      }}
    </Shown>
  )
}

/** Replaces the query in the URL of the page by another one. */
function openQuery(saved: NonNullable<ReturnType<typeof innerQuery>>): void {
  let address = toAddress(saved)
  if (address.toString().length > ADDRESS_CHARACTERS_MAX) {
    address = new URLSearchParams({ way: address.get('way') ?? '', q: SAVED })
  }
  for (const name of PLACE) {
    const value = query.value.get(name)
    if (value !== null) address.set(name, value)
  }
  go(`${path.value}?${address.toString()}`, { replace: true })
}

function Explorer({ insight }: { insight: Insight | null }) {
  const asked = { ...question.value, persons_urls: true }
  const loaded = useLoaded(`${project.value.id} ${JSON.stringify(asked)}`, async (signal) => ({
    query: asked,
    results: await askQuery<unknown>(asked, signal),
  }))
  const words = wayWords()
  const range = way.value !== 'retention' && !isWhole.value && (
    <RangePicker compares={way.value === 'trends' && 'year'} />
  )
  return (
    <>
      <Breadcrumb />
      <Page title={insight === null ? 'Explore' : nameOf(insight)} aside={range}>
        {!isWhole.value && <Tabs label="Kinds of questions" tabs={WAYS} parameter="way" />}
        <div class="split explore">
          <Builder />
          <Card title={words} aside={may('insight:write') && <SaveControls insight={insight} />}>
            <Shown of={loaded}>{(data) => <Totals key={data.query.kind} {...data} view={Answer} />}</Shown>
            <Notes insight={insight?.id} />
          </Card>
        </div>
      </Page>
    </>
  )
}

function wayWords(): string {
  return WAYS.find(([one]) => one === way.value)?.[1] ?? ''
}

/** The most characters of a title that the page makes from the query. */
const TITLE_CHARACTERS_MAX = 120

/** Returns a title for the query of the page, such as "Funnel: Pageview → signed up, by Country". */
function titleOfQuery(): string {
  if (isWhole.value || way.value === 'paths') return wayWords()
  // Lifecycle and retention ask for the first series only, and the series and the breakdown of another tab stay in the URL.
  const most = way.value === 'lifecycle' ? 1 : way.value === 'retention' ? 2 : choices.value.length
  const isDivided = way.value === 'trends' || way.value === 'funnel'
  const names = choices.value.slice(0, most).map(({ name, event, action }) => {
    if (name !== undefined) return name
    if (event !== null) return eventLabel(event)
    return action === undefined ? 'All events' : `Action ${action}`
  })
  const by = (isDivided ? breakdownsOf(query.value) : []).map(({ type, key }) => {
    return type === 'cohort' ? 'cohort' : propertyLabel(key)
  })
  const events = names.join(way.value === 'funnel' || way.value === 'retention' ? ' → ' : ', ')
  const title = `${wayWords()}: ${[events, ...by.map((one) => `by ${one}`)].join(', ')}`
  return title.length > TITLE_CHARACTERS_MAX ? `${title.slice(0, TITLE_CHARACTERS_MAX - 1)}…` : title
}

function nameOf({ name, derived_name: derived }: Insight): string {
  return name || derived || 'Insight without a name'
}

/** The link back to the dashboard from which the insight was opened. */
function Breadcrumb() {
  const id = query.value.get('dashboard')
  const { data } = useGet('project/dashboards/')
  if (id === null) return null
  const name = data?.results.find((one) => String(one.id) === id)?.name ?? 'Dashboard'
  return (
    <nav class="breadcrumb" aria-label="Breadcrumb">
      <a href={pageOf('/dashboards')}>Dashboards</a> <span aria-hidden="true">›</span>{' '}
      <a href={pageOf(`/dashboards/${id}`)}>{name}</a>
    </nav>
  )
}

function SaveControls({ insight }: { insight: Insight | null }) {
  if (insight === null) return <SaveNew />
  const saved = innerQuery(insight.query)
  const isChanged = saved === null || !isSame(saved, question.value)
  const { id } = insight
  const save = () => act(patch('project/insights/{id}/', { id }, { query: framed(insight) }), 'The insight is saved.')
  async function remove() {
    await patch('project/insights/{id}/', { id }, { deleted: true })
    say(`“${nameOf(insight as Insight)}” is deleted.`)
    const dashboard = query.value.get('dashboard')
    go(inProjectPath(dashboard === null ? '/dashboards' : `/dashboards/${dashboard}`))
  }
  return (
    <span class="row">
      {isChanged && (
        <>
          <span class="badge off">Changed</span>
          <Button press={save}>Save</Button>
        </>
      )}
      <SaveInsight label="Save as" name={insight.name ? `${insight.name} (copy)` : ''} insight={insight} />
      <Ask
        label="Rename"
        title="Rename the insight"
        fields={{
          name: { label: 'Name', value: insight.name ?? '', isRequired: true },
          description: { label: 'Description', value: insight.description ?? '', type: 'area' },
        }}
        submit={(fields) => patch('project/insights/{id}/', { id }, fields)}
      />
      {may('sharing_configuration:write') && <ShareButton kind="insights" id={id} />}
      <Ask label="Delete" title={`Delete “${nameOf(insight)}”?`} submit={remove}>
        {insight.dashboards.length === 0
          ? 'The insight is on no dashboard.'
          : `It also disappears from ${insight.dashboards.length === 1 ? 'its dashboard' : `${insight.dashboards.length} dashboards`}.`}
      </Ask>
    </span>
  )
}

/**
 * Returns the query of the page, wrapped in the outer node of the opened insight. The other members of this node are
 * kept, because they may say how other programs show the insight.
 */
function framed(insight: Insight | null) {
  const frame = insight?.query
  const isFrame = frame?.['kind'] === 'InsightVizNode'
  return { ...(isFrame && frame), kind: 'InsightVizNode', source: question.value }
}

/**
 * The title of a new insight, and the button that saves it. A title is already there, so that one click is enough. If
 * the page was opened from a dashboard, the insight is added to this dashboard.
 */
function SaveNew() {
  const [given, setGiven] = useState<string | null>(null)
  const title = titleOfQuery()
  const name = given?.trim() || title
  const isSaving = useRef(false)
  async function save() {
    if (isSaving.current) return
    isSaving.current = true
    await act(saveAs(name, query.value.get('dashboard') ?? '', null), savedWords(name))
    isSaving.current = false
  }
  return (
    <span class="row save-new">
      <input
        aria-label="Title of the insight"
        value={given ?? title}
        onInput={({ currentTarget }) => setGiven(currentTarget.value)}
        onKeyDown={({ key, isComposing }) => key === 'Enter' && !isComposing && void save()}
      />
      <Button press={save}>Save</Button>
      <SaveInsight label="Save to a dashboard" name={name} insight={null} />
    </span>
  )
}

/** Saves the query of the page as a new insight, on the dashboard with the number `onto` if it is not empty. */
async function saveAs(name: string, onto: string, insight: Insight | null): Promise<void> {
  const body = { name, saved: true, query: framed(insight), ...(onto !== '' && { dashboards: [Number(onto)] }) }
  const made = await post('project/insights/', {}, body)
  const address = new URLSearchParams(query.value)
  address.set('insight', made.short_id)
  if (onto !== '') address.set('dashboard', onto)
  if (!address.has('way')) address.set('way', way.value)
  go(`${path.value}?${address.toString()}`)
}

const savedWords = (name: string) => `Insight “${name}” saved.`

interface SaveInsightProps {
  readonly label: string
  readonly name: string
  readonly insight: Insight | null
}

function SaveInsight({ label, name: first, insight }: SaveInsightProps) {
  const { data } = useGet('project/dashboards/')
  const dashboards = (data?.results ?? []).map(({ id, name }) => [String(id), String(name ?? id)] as const)
  const hint = <a href={pageOf('/dashboards')}>All dashboards</a>
  return (
    <Ask
      label={label}
      title={insight === null ? 'Save as an insight' : 'Save as a new insight'}
      action="Save"
      fields={{
        name: { label: 'Name', value: first, isRequired: true },
        onto: {
          kind: 'choice',
          label: 'On the dashboard',
          value: query.value.get('dashboard') ?? '',
          options: [['', 'none'], ...dashboards],
          hint,
        },
      }}
      submit={async ({ name, onto }) => {
        await saveAs(name, onto, insight)
        say(savedWords(name))
      }}
    />
  )
}
