/**
 * Many clients request large insights and dashboards. The main thread does not build large texts of them, and shared
 * results are computed once.
 *
 * @lane all
 */
import t from 'tap'
import { ANSWER_TEXT_UNITS_MAX } from '../../src/http/server/limits.ts'
import { TILE_TEXT_CHARACTERS_MAX } from '../../src/rules/saved/limits.ts'
import { send } from '../fixtures/exact-client.ts'
import { PERSONAL_KEY, startDecisions } from '../fixtures/flags/decision-daemon.ts'

const READERS = 20
const VALUES = 25
const AUTHORIZED = { headers: { Authorization: `Bearer ${PERSONAL_KEY}` } }

interface ShownTile {
  readonly error: object | null
  readonly insight: {
    readonly error: object | null
    readonly result: readonly object[] | null
  } | null
  readonly text: { readonly body: string } | null
}

/**
 * Returns the length of the longest text that the main thread, which is also the test's thread, writes or parses during
 * an action.
 */
async function longestText(action: () => Promise<void>): Promise<number> {
  const { stringify, parse } = JSON
  let longest = 0
  const note = <Text>(text: Text): Text => {
    if (typeof text === 'string') longest = Math.max(longest, text.length)
    return text
  }
  JSON.stringify = ((...input: Parameters<typeof stringify>) =>
    note(stringify(...input))) as typeof stringify
  JSON.parse = ((text: string, ...rest: []) => parse(note(text), ...rest)) as typeof parse
  try {
    await action()
    return longest
  } finally {
    Object.assign(JSON, { stringify, parse })
  }
}

t.test(
  'twenty readers of a shared dashboard cause one computation and no large text',
  async (t) => {
    const daemon = await startDecisions(t, 1)
    await daemon.capture(
      Array.from({ length: VALUES }, (_, number) => ({
        event: 'view',
        distinct_id: `d${number}`,
        timestamp: '2023-01-02T12:00:00Z',
        properties: { value: `v${number}` },
      })),
    )
    const trend = (date_to: string) => ({
      kind: 'TrendsQuery',
      series: [{ event: 'view' }],
      interval: 'minute',
      dateRange: { date_from: '2023-01-01', date_to },
      breakdownFilter: { breakdown: 'value', breakdown_limit: VALUES },
    })
    const made = async (path: string, body: object): Promise<Readonly<Record<string, unknown>>> =>
      (await daemon.api('POST', path, 1, body)).body
    const large = await made('insights/', { name: 'large', query: trend('2023-01-03') })
    const tooLarge = await made('insights/', { name: 'too large', query: trend('2023-02-01') })
    const texts = Array.from({ length: 100 }, () => ({
      text: { body: 'y'.repeat(TILE_TEXT_CHARACTERS_MAX) },
    }))
    const tiles = [{ insight: tooLarge['id'] }, { insight: large['id'] }, ...texts]
    const board = await made('dashboards/', { name: 'board', tiles })
    const boardPath = `dashboards/${String(board['id'])}/`
    const shared = await daemon.api('PATCH', `${boardPath}sharing/`, 1, { enabled: true })
    const path = `${daemon.url}/shared/${String(shared.body['access_token'])}`
    const asked = async (): Promise<number> => {
      const text = (await send(`${daemon.url}/metrics`)).body.toString()
      const lines = text.split('\n').filter((line) => line.startsWith('queries_total'))
      return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
    }
    const before = await asked()
    const answers: { readonly status: number; readonly body: Buffer }[] = []
    const ofShared = await longestText(async () => {
      const readers = Array.from({ length: READERS }, () => send(`${path}.json`))
      answers.push(...(await Promise.all(readers)))
    })
    t.equal(await asked(), before + 2, 'each of the two queries once')
    t.ok(answers.every(({ status, body }) => status === 200 && body.length > 2_000_000))
    t.ok(ofShared < ANSWER_TEXT_UNITS_MAX, `${ofShared} characters at once`)
    const refusal = { type: 'query_too_large', message: /Choose a longer interval/ }
    for (const { body } of answers) {
      const { dashboard } = JSON.parse(body.toString()) as { dashboard: { tiles: ShownTile[] } }
      const [refused, answered, text] = dashboard.tiles
      t.match([refused?.error, refused?.insight?.error], [refusal, refusal])
      t.equal(refused?.insight?.result, null)
      t.strictSame([answered?.error, answered?.insight?.error], [null, null])
      t.equal(
        answered?.insight?.result?.length,
        VALUES,
        'another insight is answered in the meantime',
      )
      t.equal(text?.text?.body.length, TILE_TEXT_CHARACTERS_MAX)
    }
    let page = ''
    const others = await longestText(async () => {
      page = (await send(path)).body.toString()
      for (const one of [boardPath, `insights/${String(large['id'])}/`]) {
        const url = `${daemon.url}${daemon.path(1, one)}`
        const { status, body } = await send(url, AUTHORIZED)
        t.match([status, body.length > 2_000_000], [200, true], one)
      }
      const changed = await send(`${daemon.url}${daemon.path(1, boardPath)}`, {
        ...AUTHORIZED,
        method: 'PATCH',
        body: JSON.stringify({ name: 'renamed' }),
      })
      t.match([changed.status, changed.body.length > texts.length * 4000], [200, true], 'PATCH')
    })
    t.ok(others < ANSWER_TEXT_UNITS_MAX, `${others} characters at once`)
    t.ok(page.includes('<h2>large</h2><table>'))
    t.match(
      page.slice(0, page.indexOf('<h2>large')),
      /<h2>too large<\/h2><p><small>[^<]*Choose a longer interval[^<]*<\/small><\/p>/,
    )
  },
)
