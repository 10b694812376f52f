/**
 * An experiment with OpenFeature's server SDK and its released provider for remote evaluation, against the built daemon.
 * The provider does not report who saw a variant. A hook reports it, as docs/EXPERIMENTS.md describes, and the result
 * counts exactly the persons for whom the SDK evaluated the flag.
 *
 * @lane all
 */
import { OFREPProvider } from '@openfeature/ofrep-provider'
import { type Hook, OpenFeature } from '@openfeature/server-sdk'
import t from 'tap'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { untilStored } from '../fixtures/event-pages.ts'
import { closeConnections, postJson } from '../fixtures/exact-client.ts'
import { compareResult, launchExperiment, PAID } from '../fixtures/flags/sdk-experiment.ts'

const KEY = 'short-signup'
const PERSONS = 60
const PAID_EVERY = 3

t.teardown(closeConnections)
t.teardown(() => OpenFeature.close())
const daemon = await spawnDaemon({ dataDir: `${t.testdir()}/data` })
t.teardown(() => daemon.stop())

async function capture(event: string, distinctId: string, properties: object = {}): Promise<void> {
  const body = { api_key: PROJECT_KEY, event, distinct_id: distinctId, properties }
  const answer = await postJson(`${daemon.url}/capture/`, body)
  if (answer.status !== 200) throw new Error(answer.body.toString())
}

/** Reports each evaluation with a variant as PostHog's SDKs do. */
const exposures: Hook = {
  after: async ({ context, flagKey }, { variant }) => {
    if (variant === undefined) return
    await capture('$feature_flag_called', context.targetingKey ?? '', {
      $feature_flag: flagKey,
      $feature_flag_response: variant,
    })
  },
}

t.test('an OpenFeature client runs an experiment', async (t) => {
  const experiment = await launchExperiment(daemon, KEY)
  const headers: [string, string][] = [['Authorization', `Bearer ${PROJECT_KEY}`]]
  await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: daemon.url, headers }))
  const client = OpenFeature.getClient().addHooks(exposures)

  const seen = new Map<string, string>()
  const paying = new Set<string>()
  for (let index = 0; index < PERSONS; index++) {
    const targetingKey = `person-${index}`
    seen.set(targetingKey, await client.getStringValue(KEY, 'no variant', { targetingKey }))
    if (index % PAID_EVERY !== 0) continue
    await capture(PAID, targetingKey)
    paying.add(targetingKey)
  }
  t.strictSame(new Set(seen.values()), new Set(['control', 'test']))
  // Persons who pay without having seen a variant are not part of the experiment.
  await capture(PAID, 'nobody asked for a variant of this person')
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  await untilStored(source, PERSONS + paying.size + 1)
  await compareResult(t, daemon, experiment, { seen, paying })
})
