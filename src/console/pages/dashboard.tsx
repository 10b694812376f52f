/** A dashboard: its tiles with saved queries, which refresh automatically, and a link for people without a key. */
import {
  AddressFields,
  Ask,
  act,
  ago,
  askQuery,
  Card,
  Check,
  Command,
  DialogButton,
  Empty,
  Form,
  Got,
  go,
  href,
  inProjectPath,
  may,
  Page,
  pageId,
  pageOf,
  patch,
  post,
  project,
  type Query,
  query,
  Shown,
  say,
  useLoaded,
} from '../kit.ts'
import { Answer } from '../parts/answers.tsx'
import { exploreHref } from './explore/question.ts'

const REFRESHES = [
  ['0', 'Refresh: never'],
  ['1', 'Refresh: every minute'],
  ['10', 'Refresh: every 10 minutes'],
] as const

interface Tile {
  readonly id: number
  readonly insight?: { readonly id: number; readonly name?: string | null; readonly query?: unknown } | null
  readonly text?: { readonly body?: string } | null
}

const own = () => ({ id: Number(pageId.value) })
const change = (changes: Readonly<Record<string, unknown>>) => patch('project/dashboards/{id}/', own(), changes)

/** The page "Dashboard". */
export default function DashboardPage() {
  return (
    <Got route="project/dashboards/{id}/" values={own()}>
      {({ name, tiles = [] }) => (
        <Page title={name ?? 'Dashboard'} aside={<Controls name={name ?? ''} />}>
          {tiles.length === 0 && (
            <Empty title="Nothing on this dashboard yet.">
              <a href={pageOf('/explore')}>Explore</a> a question and save it here.
            </Empty>
          )}
          <div class="grid">
            {(tiles as readonly Tile[]).map((tile) => (
              <TileCard key={tile.id} tile={tile} />
            ))}
          </div>
        </Page>
      )}
    </Got>
  )
}

function Controls({ name }: { name: string }) {
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
            fields={{ name: { label: 'Name', value: name, isRequired: true } }}
            submit={change}
          />
          {may('sharing_configuration:write') && (
            <DialogButton label="Share" title="Share this dashboard">
              <Sharing />
            </DialogButton>
          )}
          <Ask label="Delete" title={`Delete “${name}”?`} submit={remove}>
            Its insights stay; whoever has its link sees nothing any more.
          </Ask>
        </>
      )}
    </>
  )
}

function TileCard({ tile: { id, insight, text } }: { tile: Tile }) {
  const title = insight == null ? 'Text' : (insight.name ?? 'Insight')
  const question = `Take “${title}” off this dashboard?`
  const aside = (
    <span class="row">
      {insight && <a href={href(inProjectPath(exploreHref(insight.query)))}>Explore</a>}
      {may('dashboard:write') && (
        <Ask label="✕" action="Take it off" title={question} submit={() => change({ tiles: [{ id, deleted: true }] })}>
          The insight itself stays.
        </Ask>
      )}
    </span>
  )
  return (
    <Card title={title} aside={aside}>
      {insight ? <InsightAnswer saved={insight.query} /> : <p>{text?.body}</p>}
    </Card>
  )
}

function InsightAnswer({ saved }: { saved: unknown }) {
  const whole = (saved ?? {}) as { source?: Query } & Query
  const asked = { ...(whole.source ?? whole), persons_urls: true }
  const everyMs = Number(query.value.get('refresh') ?? 0) * 60_000
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
          <p class="quiet">Asked {ago(at)}</p>
        </>
      )}
    </Shown>
  )
}

function Sharing() {
  async function renew() {
    await post('project/dashboards/{id}/sharing/refresh/', own())
    say('There is a new link; the old one opens nothing any more.')
  }
  const set = (enabled: boolean) => {
    const words = enabled ? 'Whoever has the link sees the numbers.' : 'The link opens nothing any more.'
    return act(patch('project/dashboards/{id}/sharing/', own(), { enabled }), words)
  }
  return (
    <Got route="project/dashboards/{id}/sharing/" values={own()}>
      {(shared) => {
        const { enabled = false, access_token: token } = shared as { enabled?: boolean; access_token?: string | null }
        return (
          <>
            <Check isSwitch label="Whoever has the link sees the numbers" value={enabled} change={set} />
            {enabled && token && (
              <Form action="New link" submit={renew}>
                <Command text={`${location.origin}/shared/${token}`} />
              </Form>
            )}
          </>
        )
      }}
    </Got>
  )
}
