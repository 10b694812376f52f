/**
 * Tests a damaged record that an answer needs: this read is refused with its own code, other reads succeed.
 *
 * @lane quick
 */
import t from 'tap'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_ENVIRONMENT, pairKey } from '../../src/store/lmdb/keys.ts'
import { startDecisions } from '../fixtures/flags/decision-daemon.ts'

t.test('a damaged record is reported as damaged, without its content', async (t) => {
  const daemon = await startDecisions(t)
  await daemon.capture([{ event: 'sound', distinct_id: 'ann' }])
  const { dataDir } = daemon
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: ['warnings'] })
  environment.write(() => {
    environment.table('warnings').putSync(pairKey(1, 1), Buffer.from('no record with a checksum'))
  })
  await environment.close()
  const refused = await daemon.api('GET', 'ingestion_warnings/')
  t.match(refused, {
    status: 500,
    body: { type: 'server_error', code: 'data_corrupted', detail: /tenrec verify/, attr: null },
  })
  t.notMatch(JSON.stringify(refused.body), /no record with/)
  t.match(await daemon.api('GET', 'events/?event=sound'), {
    status: 200,
    body: { results: [{ event: 'sound' }] },
  })
})
