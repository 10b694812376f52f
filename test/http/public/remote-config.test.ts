/**
 * The configuration of browsers besides flags: its cache time and the settings of a project.
 *
 * @lane quick
 */
import t from 'tap'
import { ProjectStore } from '../../../src/store/catalog/project-store.ts'
import { send } from '../../fixtures/exact-client.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const world = await shareDecisions(3)

t.test('browsers that visited before see a first flag at once', async (t) => {
  for (const name of ['config', 'config.js']) {
    const project = name === 'config' ? 1 : 2
    const path = `/array/${world.key(project)}/${name}`
    const ask = (etag?: unknown) =>
      send(`${world.url}${path}`, {
        headers: etag === undefined ? {} : { 'If-None-Match': String(etag) },
      })
    const none = await ask()
    t.equal(
      none.headers['cache-control'],
      'public, no-cache',
      'not cached while there are no flags',
    )
    t.equal(none.headers['vary'], 'Origin')
    const known = await ask(none.headers.etag)
    t.equal(known.status, 304)
    t.equal(known.headers.etag, none.headers.etag)
    t.equal(known.headers['vary'], 'Origin')
    await world.putFlags([{ key: 'first' }], project)
    const some = await ask(none.headers.etag)
    t.equal(some.status, 200)
    t.match(some.body.toString(), /"hasFeatureFlags":true/)
    t.equal(some.headers['cache-control'], 'public, max-age=300')
    t.equal((await ask(some.headers.etag)).status, 304)
  }
})

t.test(
  'capture settings of a project are in remote configuration and in answers to old SDKs',
  async (t) => {
    const config = async () => (await world.ask(`/array/${world.key(3)}/config`)).body
    const old = async () => (await world.decide('/decide/?v=3', { distinct_id: 'u' }, 3)).body
    const off = {
      autocapture_opt_out: false,
      autocaptureExceptions: false,
      errorTracking: { autocaptureExceptions: false, suppressionRules: [] },
      capturePerformance: false,
    }
    t.match(await config(), off)
    t.match(await old(), { ...off, surveys: false })
    const withFlags = await world.decide('/flags/?v=2&config=true', { distinct_id: 'u' }, 3)
    t.match(withFlags.body, off)
    const store = new ProjectStore(world.dataDir)
    t.teardown(() => store.close())
    const set = { isAutocaptureOff: true, areExceptionsCaptured: true, areWebVitalsCaptured: true }
    store.setProject(world.idOf(3), set)
    await world.settled()
    const on = {
      autocapture_opt_out: true,
      autocaptureExceptions: true,
      errorTracking: { autocaptureExceptions: true, suppressionRules: [] },
      capturePerformance: { web_vitals: true, network_timing: false },
    }
    t.match(await config(), on)
    t.match(await old(), on)
    t.match(await old(), on, 'also for a cached request')
    store.setProject(world.idOf(3), { areWebVitalsCaptured: false })
    await world.settled()
    t.match(await old(), { ...on, capturePerformance: false })
  },
)
