/**
 * An experiment from its draft to its result, with the released posthog-node against the built daemon: the persons that
 * the result counts are those who saw a variant, with remote and with local evaluation.
 *
 * @lane quick
 */
import { PostHog } from 'posthog-node'
import t from 'tap'
import { askApi } from '../fixtures/console-data.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { type StoredEvent, untilStored } from '../fixtures/event-pages.ts'
import { closeConnections } from '../fixtures/exact-client.ts'

const KEY = 'short-signup'
const PERSONS = 60
const PAID_EVERY = 3

t.teardown(closeConnections)
// The SDK announces that calls are deprecated.
console.warn = () => {}
const daemon = await spawnDaemon({ dataDir: `${t.testdir()}/data` })
t.teardown(() => daemon.stop())

interface Experiment {
  readonly id: number
  readonly feature_flag: { readonly id: number }
}

interface Result {
  readonly exposed_persons: Readonly<Record<string, number>>
  readonly primary_metrics: readonly {
    readonly baseline: { readonly key: string; readonly sum: number }
    readonly variant_results: readonly { readonly key: string; readonly sum: number }[]
  }[]
}

function client(personalApiKey?: string): PostHog {
  return new PostHog(PROJECT_KEY, {
    host: daemon.url,
    flushAt: 1,
    disableGeoip: false,
    ...(personalApiKey === undefined ? {} : { personalApiKey }),
  })
}

const post = <Body>(path: string, body: object = {}) =>
  askApi<Body>(daemon, 'POST', `projects/1/${path}`, body)

t.test('a client runs an experiment from the draft to the result', async (t) => {
  const metric = { metric_type: 'funnel', series: [{ kind: 'EventsNode', event: 'paid' }] }
  const experiment = await post<Experiment>('experiments/', {
    name: 'Shorter form',
    feature_flag_key: KEY,
    metrics: [metric],
  })
  const remote = client()
  const before = await remote.getFeatureFlag(KEY, 'early', { sendFeatureFlagEvents: false })
  t.notOk(before, 'a draft has no variants')
  await post(`experiments/${experiment.id}/launch/`)

  const local = client(PERSONAL_KEY)
  await local.waitForLocalEvaluationReady()
  const seen = new Map<string, string>()
  for (let index = 0; index < PERSONS; index++) {
    const person = `person-${index}`
    const sdk = index % 2 === 0 ? remote : local
    const variant = String(await sdk.getFeatureFlag(KEY, person))
    seen.set(person, variant)
    if (index % PAID_EVERY === 0) sdk.capture({ distinctId: person, event: 'paid' })
  }
  await remote.shutdown()
  await local.shutdown()
  const paid = Math.ceil(PERSONS / PAID_EVERY)
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  const events = await untilStored(source, PERSONS + paid)
  t.strictSame(new Set(seen.values()), new Set(['control', 'test']))

  const calls = events.filter(({ event }) => event === '$feature_flag_called')
  const responseOf = ({ properties }: StoredEvent) => properties['$feature_flag_response']
  t.strictSame(
    calls.map((event) => [event.distinct_id, responseOf(event)]).toSorted(),
    [...seen].toSorted(),
    'each person was told once which variant they have',
  )
  t.ok(
    calls.every(({ properties }) => properties['$feature_flag_has_experiment'] === true),
    'clients know that the flag has an experiment',
  )

  const query = { kind: 'ExperimentQuery', experiment_id: experiment.id }
  const result = await post<Result>('query/', { query })
  const countOf = (variant: string, isWanted = (_: number) => true) =>
    [...seen.values()].filter((one, index) => one === variant && isWanted(index)).length
  t.strictSame(result.exposed_persons, { control: countOf('control'), test: countOf('test') })
  const isPaying = (index: number) => index % PAID_EVERY === 0
  t.match(result.primary_metrics, [
    {
      baseline: { key: 'control', sum: countOf('control', isPaying) },
      variant_results: [{ key: 'test', sum: countOf('test', isPaying) }],
    },
  ])

  await post(`experiments/${experiment.id}/ship_variant/`, { variant_key: 'test' })
  const after = client()
  const variants = await Promise.all(
    [...seen.keys()].map((person) => after.getFeatureFlag(KEY, person)),
  )
  await after.shutdown()
  t.strictSame(new Set(variants), new Set(['test']), 'everybody has the shipped variant')
})
