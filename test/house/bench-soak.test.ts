/**
 * The bench `soak` asks every route that answers questions, also those that came after it.
 *
 * @lane quick
 */
import t from 'tap'
import { routesNotAsked, SOAK_READS } from '../../bench/operate/soak-routes.ts'
import { buildDocument } from '../../src/http/openapi/document.ts'

t.test('each GET route of the description is asked, and one that is new is missed', async (t) => {
  t.strictSame(routesNotAsked(buildDocument()), [])
  const document = { paths: { '/api/projects/{project_id}/novelties/': { get: {} } } }
  t.strictSame(routesNotAsked(document), Object.keys(document.paths))
  t.equal(
    new Set(SOAK_READS.map(({ path }) => path)).size,
    SOAK_READS.length,
    'none is asked twice',
  )
})
