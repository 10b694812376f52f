/**
 * Tests that the benchmark `soak` requests every route that answers queries, including new ones.
 *
 * @lane quick
 */
import t from 'tap'
import { routesNotAsked, SOAK_READS } from '../../bench/operate/soak-routes.ts'
import { buildDocument } from '../../src/http/openapi/document.ts'

t.test(
  'each GET route of the description is requested, and a missing one is reported',
  async (t) => {
    t.strictSame(routesNotAsked(buildDocument()), [])
    const document = { paths: { '/api/projects/{project_id}/novelties/': { get: {} } } }
    t.strictSame(routesNotAsked(document), Object.keys(document.paths))
    t.equal(
      new Set(SOAK_READS.map(({ path }) => path)).size,
      SOAK_READS.length,
      'no route is requested twice',
    )
  },
)
