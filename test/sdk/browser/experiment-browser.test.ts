/**
 * An experiment with the current posthog-js in Chromium, against the built daemon: the result counts exactly the
 * visitors whose page showed a variant, also those who log in later and pay under another distinct ID.
 *
 * @lane browser
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { launchBrowser, startSite } from '../../fixtures/browser.ts'
import { PERSONAL_KEY, spawnDaemon } from '../../fixtures/daemon.ts'
import { untilStored } from '../../fixtures/event-pages.ts'
import { closeConnections } from '../../fixtures/exact-client.ts'
import { PAGE, Visit } from '../../fixtures/flags/flag-page.ts'
import { compareResult, launchExperiment, PAID } from '../../fixtures/flags/sdk-experiment.ts'

const KEY = 'short-signup'
const VISITORS = 16
const PAID_EVERY = 3
const LOGIN_EVERY = 2

t.teardown(closeConnections)
t.setTimeout(300_000)
const daemon = await spawnDaemon({ dataDir: `${t.testdir()}/data` })
t.teardown(() => daemon.stop())

t.test('posthog-js runs an experiment', async (t) => {
  const browser = await launchBrowser(t)
  if (browser === null) return
  const script = readFileSync(fileURLToPath(import.meta.resolve('posthog-js/dist/array.full.js')))
  const place = { browser, site: await startSite(t, PAGE, '/sdk.js', script), host: daemon.url }
  const experiment = await launchExperiment(daemon, KEY)

  const seen = new Map<string, string>()
  const paying = new Set<string>()
  let logins = 0
  const complaints: string[] = []
  for (let index = 0; index < VISITORS; index++) {
    const visit = await Visit.begin(t, place, { request_batching: false })
    await visit.loaded()
    const visitor = await visit.distinctId()
    seen.set(visitor, String(await visit.flag(KEY)))
    if (index % LOGIN_EVERY === 0) {
      await visit.change(() => visit.call('identify', `customer-${index}`))
      logins++
    }
    if (index % PAID_EVERY === 0) {
      await visit.call('capture', PAID)
      paying.add(visitor)
    }
    complaints.push(...visit.complaints)
  }
  const source = { url: daemon.url, personalKey: PERSONAL_KEY }
  await untilStored(source, VISITORS, 'event=%24feature_flag_called')
  await untilStored(source, logins, 'event=%24identify')
  await untilStored(source, paying.size, `event=${PAID}`)
  await compareResult(t, daemon, experiment, { seen, paying })
  t.strictSame(complaints, [])
})
