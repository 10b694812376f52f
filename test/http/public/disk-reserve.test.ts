/**
 * If the disk has less free space than the reserve, events are refused on every path with the reason, nothing is
 * stored, and decisions and reads still work. The test needs no small file system, so it runs for every user.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { PERSONAL_KEY, startDecisions } from '../../fixtures/flags/decision-daemon.ts'

t.test('below the reserve events are refused, and all other requests are answered', async (t) => {
  const daemon = await startDecisions(t, 1, { 'disk-reserve': '16TiB' })
  await daemon.putFlags([{ key: 'everyone' }])
  const event = { event: 'e', distinct_id: 'u', properties: {} }
  const single = { api_key: daemon.key(), ...event }
  const bodies: Readonly<Record<string, object>> = {
    '/capture/': single,
    '/e/': single,
    '/i/v0/e/': single,
    '/batch/': { api_key: daemon.key(), batch: [event] },
  }
  const differences = new Differences()
  for (const [path, json] of Object.entries(bodies)) {
    const { status, headers, body } = await daemon.ask(path, { json })
    differences.equal(status, 503, path)
    differences.match(headers['retry-after'], /^\d+$/, `${path}: the time of the next attempt`)
    differences.match(body['detail'], /disk/i, `${path}: the reason`)
  }
  t.strictSame(differences.list(), [], 'every path refuses events')
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const stored = await daemon.ask('/api/projects/1/events/', { headers })
  t.match(
    stored,
    { status: 200, body: { results: [] } },
    'reads still work, and nothing was stored',
  )
  const decided = await daemon.decide('/flags/?v=2', { distinct_id: 'u' })
  t.match(decided, { status: 200, body: { flags: { everyone: { enabled: true } } } })
})
