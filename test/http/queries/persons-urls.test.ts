/**
 * The answers of random queries contain a URL for each number. The URL returns as many persons as the number says.
 *
 * @lane all
 */
import t from 'tap'
import { Dice } from '../../fixtures/dice.ts'
import { Differences } from '../../fixtures/differences.ts'
import { startDecisions } from '../../fixtures/flags/decision-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'
import { QUERY_MAKERS, randomEvents } from '../../fixtures/queries/random-queries.ts'
import { roundsOf, seedOf } from '../../fixtures/random-depth.ts'

const SEED = seedOf(1)
const QUERIES_EACH = roundsOf(15, 4)
/** The first project has events of one person at the same time, and values that are null. */
const ZONES = ['UTC', 'Europe/Berlin', 'America/New_York']

/** A number and the address beside it. */
interface Linked {
  readonly number: number
  readonly url: string | null
}

function linkOf(number: unknown, entry: unknown): Linked {
  const url = entry === null ? null : (entry as Json)['url']
  if (typeof number !== 'number' || (url !== null && typeof url !== 'string')) {
    throw new Error(`no number with an address: ${JSON.stringify({ number, entry })}`)
  }
  return { number: Math.abs(number), url }
}

/** Returns all numbers of an answer. */
function linksOf(item: Json): readonly Linked[] {
  if ('persons_url' in item) return [linkOf(item['value'] ?? item['count'], item['persons_url'])]
  if (Array.isArray(item['values'])) return (item['values'] as Json[]).flatMap(linksOf)
  const urls = item['persons_urls'] as unknown[]
  if ('aggregated_value' in item) return urls.map((one) => linkOf(item['aggregated_value'], one))
  const data = (item['data'] ?? [item['count']]) as unknown[]
  if (urls.length !== data.length) throw new Error('a number has no address')
  return data.map((number, index) => linkOf(number, urls[index]))
}

t.test('every address leads to as many persons as its number says', async (t) => {
  const daemon = await startDecisions(t, ZONES.length)
  const known = new Map<string, { numbers: number; linked: number; above: number }>()
  const differences = new Differences()
  for (const [index, timezone] of ZONES.entries()) {
    const dice = new Dice(SEED * 100 + index)
    const id = index + 1
    await daemon.capture(randomEvents(dice, index > 0), id)
    const test_account_filters = [{ key: 'k', value: 'y', operator: 'is_not', type: 'event' }]
    await daemon.api('PATCH', '', id, { timezone, test_account_filters })
    const members = { name: 'some', is_static: true, distinct_ids: ['d1', 'd2', 'd3', 'd4', 'd5'] }
    const { body: cohort } = await daemon.api('POST', 'cohorts/', id, members)
    const steps = [{ event: 'a' }, { event: 'b', properties: [{ key: 'k', value: 'x' }] }]
    const { body: action } = await daemon.api('POST', 'actions/', id, { name: 'did', steps })
    const project = { actionId: action['id'], cohortId: cohort['id'] }
    for (const [kind, make] of Object.entries(QUERY_MAKERS)) {
      const counts = known.get(kind) ?? { numbers: 0, linked: 0, above: 0 }
      known.set(kind, counts)
      for (let round = 0; round < QUERIES_EACH; round++) {
        const query: Json = { ...make(dice, project), persons_urls: true }
        const { status, body } = await daemon.api('POST', 'query/', id, { query })
        if (status !== 200) t.fail(`${JSON.stringify(query)} is ${JSON.stringify(body)}`)
        for (const { number, url } of (body['results'] as Json[]).flat().flatMap(linksOf)) {
          counts.numbers++
          if (url === null) continue
          counts.linked++
          if (number > 0) counts.above++
          const answer = await daemon.api('GET', url.replace(`/api/projects/${id}/`, ''), id)
          if (answer.status === 200 && answer.body['total'] === number) continue
          t.fail(`${number} is not ${JSON.stringify(answer.body['total'] ?? answer.body)}`, {
            query,
            url: decodeURIComponent(url),
          })
          return
        }
        const { body: plain } = await daemon.api('POST', 'query/', id, {
          query: { ...query, persons_urls: false },
        })
        const hasAddresses = JSON.stringify(plain['results']).includes('persons_url')
        differences.equal(hasAddresses, false, () => JSON.stringify(query))
      }
    }
  }
  t.strictSame(differences.list(), [], 'there are no addresses by default')
  for (const [kind, { numbers, linked, above }] of known) {
    t.comment(`${kind}: ${linked} of ${numbers} numbers, ${above} of them above zero`)
    t.ok(linked > numbers / 10 && above > QUERIES_EACH, `numbers of ${kind} have addresses`)
  }
})
