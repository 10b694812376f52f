/** The page "Setup": the steps of the setup that remain, with code for each step. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import {
  askProgress,
  Card,
  Command,
  hasEvent,
  may,
  Page,
  pageOf,
  project,
  Shown,
  Tabs,
  type Tick,
  tabOf,
  useGoals,
  useLoaded,
} from '../kit.ts'
import { FirstGoals } from './setup/first-goals.tsx'
import { SNIPPETS } from './setup/snippets.ts'

/**
 * How often the page checks whether the first event has arrived, in milliseconds. The other steps take the reader
 * minutes or days, so they are checked only every `REST_EVERY_MS`.
 */
const EVENT_EVERY_MS = 500
const REST_EVERY_MS = 10_000

/** The page "Setup": a list of the steps with a tick for each completed one, and code to copy. */
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
  const look = async (signal: AbortSignal) => {
    const found = await hasEvent('', signal)
    setArrived(found)
    return found
  }
  const first = useLoaded(`setup event ${id}`, look, { everyMs: isArrived ? 0 : EVENT_EVERY_MS })
  const { data: rest, error } = useLoaded(`setup ${id}`, askProgress, { everyMs: REST_EVERY_MS })
  const live = (
    <>
      <a href={pageOf('/live')}>See live events</a> or <a href={pageOf('/web')}>open the web analytics</a>.
    </>
  )
  return (
    <Card title="First steps">
      <Shown of={first}>
        {(isThere) => (
          <ul class="ticks" aria-live="polite">
            <Item tick={isThere} words="Send the first event" then={live}>
              Use one of the ways below. This step is ticked as soon as an event arrives.
            </Item>
            <Item tick={rest?.identified} words="Identify a person">
              Call <code>posthog.identify('user-1')</code> in your code when a visitor logs in to your product.
            </Item>
            <Item tick={rest?.decided} words="Use a feature flag">
              <a href={pageOf('/flags')}>Create a flag</a>, and ask for it in your code by its key.
            </Item>
            <Item tick={rest?.backup} words="Make a backup">
              Run <code>npx tenrec backup FOLDER</code> on the server. Tenrec keeps running meanwhile.
            </Item>
            <Item tick={rest?.proxy} words="Forward visitor IP addresses">
              Let your proxy send the header <code>X-Forwarded-For</code>, and list the proxy in the setting{' '}
              <code>trusted_proxies</code>.
            </Item>
            {may('action:read') && isThere && <GoalItem />}
          </ul>
        )}
      </Shown>
      {error && <p class="notice bad">{error.message}</p>}
    </Card>
  )
}

/** The last step. It is optional: the setup is considered as done without it. */
function GoalItem() {
  const goals = useGoals()
  const offer = goals && <FirstGoals goals={goals} />
  return (
    <Item tick={goals && goals.length > 0} words="What is a success on your site?" then={offer}>
      Choose the events that you want more of. {offer}
    </Item>
  )
}

interface ItemProps {
  readonly tick: Tick | undefined
  readonly words: string
  readonly then?: ComponentChildren
  readonly children: ComponentChildren
}

/** Shows a step of the setup. When the step is done, its instructions are replaced by `then`. */
function Item({ tick, words, then, children }: ItemProps) {
  const [sign, state] = tick === true ? ['✓', 'Done'] : tick === false ? ['○', 'To do'] : ['?', 'Unknown']
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

const WAYS = SNIPPETS.map(({ id, name }) => [id, name] as const)

function Snippets() {
  const chosen = tabOf(WAYS, 'way')
  return (
    <Card title="Send events">
      <Tabs label="Ways to send events" tabs={WAYS} parameter="way" />
      {SNIPPETS.filter(({ id }) => id === chosen).map(({ id, before, text }) => (
        <div key={id}>
          {before && (
            <Code
              text={before}
              label={before.startsWith('npx tenrec') ? 'Run once on the Tenrec server' : 'Run once in your project'}
            />
          )}
          <Code
            text={text(location.origin, project.value.api_token)}
            label={before ? 'Then add this to your code' : 'Run this in a terminal'}
          />
        </div>
      ))}
    </Card>
  )
}

function Code({ text, label }: { text: string; label: string }) {
  return (
    <figure class="code">
      <figcaption class="quiet">{label}</figcaption>
      <Command text={text} />
    </figure>
  )
}
