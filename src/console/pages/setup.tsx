/** The page "Setup": what is still to do, and the code that does it. */

import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import {
  query as address,
  Card,
  CopyButton,
  hasEvent,
  href,
  Page,
  pageOf,
  project,
  Shown,
  Tabs,
  useLoaded,
  withQuery,
} from '../kit.ts'
import { askProgress, type Tick } from './setup/progress.ts'
import { SNIPPETS } from './setup/snippets.ts'

/** The first event is waited for; the rest takes minutes or days. */
const EVENT_EVERY_MS = 500
const REST_EVERY_MS = 10_000

/** A list of what an installation should have, each ticked once it is there, and code to copy. */
export default function SetupPage() {
  return (
    <Page title="Setup">
      <Checklist />
      <Snippets />
    </Page>
  )
}

function Checklist() {
  const { id } = project.value
  const [isArrived, setArrived] = useState(false)
  const first = useLoaded(
    `setup event ${id}`,
    async (signal) => {
      const found = await hasEvent('', signal)
      setArrived(found)
      return found
    },
    { everyMs: isArrived ? 0 : EVENT_EVERY_MS },
  )
  const rest = useLoaded(`setup ${id}`, askProgress, { everyMs: REST_EVERY_MS })
  return (
    <Card title="To do">
      <Shown of={first}>
        {(isThere) => (
          <ul class="ticks" aria-live="polite">
            <Item
              tick={isThere}
              words="The first event has arrived"
              then={<a href={pageOf('/live')}>Watch them come</a>}
            >
              Use one of the ways below; this page notices by itself.
            </Item>
            <Item tick={rest.data?.identified} words="A person is identified">
              Call <code>posthog.identify('user-1')</code> when somebody logs in.
            </Item>
            <Item tick={rest.data?.decided} words="A feature flag is decided">
              <a href={pageOf('/flags')}>Make one</a>, and ask for it by its key.
            </Item>
            <Item tick={rest.data?.backup} words="There is a backup">
              <code>npx tenrec backup FOLDER</code> writes one while the daemon runs.
            </Item>
            <Item tick={rest.data?.proxy} words="Addresses of visitors arrive">
              A proxy must send <code>X-Forwarded-For</code> and stand in <code>trusted_proxies</code>.
            </Item>
          </ul>
        )}
      </Shown>
      {rest.error === null ? null : <p class="notice bad">{rest.error.message}</p>}
    </Card>
  )
}

/** What is to do, and, once it is done, `then`. */
function Item({
  tick,
  words,
  then,
  children,
}: {
  readonly tick: Tick | undefined
  readonly words: string
  readonly then?: ComponentChildren
  readonly children: ComponentChildren
}) {
  const [sign, state] = tick === true ? ['✓', 'Done'] : tick === false ? ['○', 'To do'] : ['?', 'Not known']
  return (
    <li class={tick === true ? 'done' : ''}>
      <span class="tick" role="img" aria-label={state}>
        {sign}
      </span>
      <span>
        <b>{words}</b> <span class="quiet">{tick === true ? then : children}</span>
      </span>
    </li>
  )
}

function Snippets() {
  const given = address.value.get('way')
  const chosen = SNIPPETS.find(({ id }) => id === given) ?? SNIPPETS[0]
  if (chosen === undefined) return null
  const text = chosen.text(location.origin, project.value.api_token)
  return (
    <Card title="Send events">
      <Tabs
        label="Ways"
        chosen={chosen.id}
        to={(id) => href(withQuery({ way: id }))}
        tabs={SNIPPETS.map(({ id, name }) => [id, name] as const)}
      />
      {chosen.before === undefined ? null : <Code text={chosen.before} label="First, once" />}
      <Code text={text} label="Then" />
    </Card>
  )
}

function Code({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <figure class="code">
      <figcaption class="quiet">{label}</figcaption>
      <pre>
        <code>{text}</code>
        <CopyButton text={text} />
      </pre>
    </figure>
  )
}
