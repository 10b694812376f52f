/**
 * Every ingestion case over real HTTP, against a complete daemon with a fixed clock.
 *
 * @lane quick
 */
import t from 'tap'
import { frozenAt, startFrozen } from '../fixtures/conformance/frozen-daemon.ts'
import {
  checkIngestionCases,
  createWorlds,
  INGESTION_NOW_MS,
} from '../fixtures/conformance/ingestion.ts'

t.test('the ingestion cases hold over HTTP', async (t) => {
  const dataDir = `${t.testdir()}/data`
  const worlds = await createWorlds(dataDir)
  const { url } = await startFrozen(t, dataDir, frozenAt(INGESTION_NOW_MS))
  await checkIngestionCases(t, worlds, () => url, [{ url, dataDir }])
})
