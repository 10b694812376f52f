/** A dashboard: saved queries beside each other, asked again by themselves, and a link for those without a key. */

import { useState } from 'preact/hooks'
import {
  ago,
  askQuery,
  Card,
  Check,
  Choice,
  ConfirmButton,
  CopyButton,
  Dialog,
  Empty,
  Form,
  go,
  href,
  inProjectPath,
  type Loaded,
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
  setQuery,
  TextField,
  useGet,
  useLoaded,
} from '../kit.ts'
import { Answer } from '../parts/answers.tsx'
import { exploreHref } from './explore/question.ts'

const REFRESHES = [
  ['0', 'not by itself'],
  ['1', 'every minute'],
  ['10', 'every 10 minutes'],
] as const

interface Tile {
  readonly id: number
  readonly insight?: {
    readonly id: number
    readonly name?: string | null
    readonly query?: unknown
  } | null
  readonly text?: { readonly body?: string } | null
}

type Change = (changes: Readonly<Record<string, unknown>>) => Promise<void>

/** The page. */
export default function DashboardPage() {
  const loaded = useGet('project/dashboards/{id}/', { id: Number(pageId.value) })
  async function change(changes: Readonly<Record<string, unknown>>) {
    await patch('project/dashboards/{id}/', { id: Number(pageId.value) }, changes)
    loaded.reload()
  }
  return (
    <Shown of={loaded}>
      {({ name, tiles = [] }) => (
        <Page title={name ?? 'Dashboard'} aside={<Controls name={name ?? ''} change={change} />}>
          {tiles.length === 0 ? (
            <Empty title="Nothing on this dashboard yet.">
              <a href={pageOf('/explore')}>Explore</a> a question and save it here.
            </Empty>
          ) : null}
          <div class="grid">
            {(tiles as readonly Tile[]).map((tile) => (
              <TileCard key={tile.id} tile={tile} change={change} />
            ))}
          </div>
        </Page>
      )}
    </Shown>
  )
}

function Controls({ name, change }: { readonly name: string; readonly change: Change }) {
  const [title, setTitle] = useState(name)
  if (!may('dashboard:write')) return <Refresh />
  return (
    <>
      <Refresh />
      <ConfirmButton
        label="Rename"
        title="Rename the dashboard"
        isDangerous={false}
        submit={() => change({ name: title })}
      >
        <TextField label="Name" value={title} change={setTitle} isRequired />
      </ConfirmButton>
      {may('sharing_configuration:write') ? <Sharing /> : null}
      <ConfirmButton
        label="Delete"
        title={`Delete “${name}”?`}
        submit={async () => {
          await change({ deleted: true })
          say(`“${name}” is deleted. Its insights stay.`)
          go(inProjectPath('/dashboards'))
        }}
      >
        <p>Its insights stay; whoever has its link sees nothing any more.</p>
      </ConfirmButton>
    </>
  )
}

function Refresh() {
  return (
    <Choice
      label="Asked again"
      isQuiet
      value={(query.value.get('refresh') ?? '0') as '0' | '1' | '10'}
      options={REFRESHES}
      change={(refresh) => setQuery({ refresh: refresh === '0' ? null : refresh })}
    />
  )
}

function TileCard({ tile: { id, insight, text }, change }: { readonly tile: Tile; readonly change: Change }) {
  const title = insight == null ? 'Text' : (insight.name ?? 'Insight')
  const remove = may('dashboard:write') ? (
    <ConfirmButton
      label="✕"
      action="Take it off"
      title={`Take “${title}” off this dashboard?`}
      submit={() => change({ tiles: [{ id, deleted: true }] })}
    >
      <p>The insight itself stays.</p>
    </ConfirmButton>
  ) : null
  if (insight == null) {
    return (
      <Card title={title} aside={remove}>
        <p>{text?.body}</p>
      </Card>
    )
  }
  return (
    <Card
      title={title}
      aside={
        <span class="row">
          <a href={href(inProjectPath(exploreHref(insight.query)))}>Explore</a>
          {remove}
        </span>
      }
    >
      <InsightAnswer saved={insight.query} />
    </Card>
  )
}

function InsightAnswer({ saved }: { readonly saved: unknown }) {
  const whole = (saved ?? {}) as { source?: Query } & Query
  const asked = { ...(whole.source ?? whole), persons_urls: true }
  const everyMs = Number(query.value.get('refresh') ?? 0) * 60_000
  const loaded = useLoaded(
    `${project.value.id} ${JSON.stringify(asked)}`,
    async (signal) => ({
      query: asked,
      results: await askQuery<unknown>(asked, signal),
      at: new Date().toISOString(),
    }),
    { everyMs },
  )
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
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <button type="button" class="small" onClick={() => setOpen(true)}>
        Share
      </button>
      {isOpen ? <SharingDialog close={() => setOpen(false)} /> : null}
    </>
  )
}

function SharingDialog({ close }: { readonly close: () => void }) {
  const loaded: Loaded<{ enabled?: boolean; access_token?: string | null }> = useGet(
    'project/dashboards/{id}/sharing/',
    { id: Number(pageId.value) },
  )
  async function set(enabled: boolean) {
    await patch('project/dashboards/{id}/sharing/', { id: Number(pageId.value) }, { enabled })
    loaded.reload()
  }
  async function renew() {
    await post('project/dashboards/{id}/sharing/refresh/', { id: Number(pageId.value) })
    say('There is a new link; the old one opens nothing any more.')
    loaded.reload()
  }
  return (
    <Dialog title="Share this dashboard" close={close}>
      <Shown of={loaded}>
        {({ enabled = false, access_token: token }) => (
          <>
            <Check
              isSwitch
              label="Whoever has the link sees the numbers"
              value={enabled}
              change={(is) => void set(is)}
            />
            {enabled && token != null ? (
              <Form action="New link" submit={renew}>
                <pre>
                  <code>{`${location.origin}/shared/${token}`}</code>
                  <CopyButton text={`${location.origin}/shared/${token}`} />
                </pre>
              </Form>
            ) : null}
          </>
        )}
      </Shown>
    </Dialog>
  )
}
