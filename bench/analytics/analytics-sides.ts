/**
 * The two sides of the bench `analytics`, which are asked over HTTP on a persistent connection. The measurement asks
 * for a page of 100 persons, as charts do. A check asks for all persons, to verify that both sides agree.
 */
import { Agent, get, type IncomingMessage } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import type { ClickHouse } from '../baselines/clickhouse.ts'
import { PERSONAL_KEY } from '../daemon.ts'
import type { QuestionPart } from './analytics-questions.ts'

/** The number of persons on a page that is timed. */
const PAGE_PERSONS = 100
/** The number of persons on a page of the check. */
const PAGE_PERSONS_MAX = 10_000

/** The uuids of persons. Each has its value as text. */
export type Found = ReadonlyMap<string, string>

/** One side of the comparison: it answers questions. */
export interface Side {
  /** Asks for the first page, and returns the number of persons on it. */
  page(part: QuestionPart): Promise<number>
  everybody(part: QuestionPart): Promise<Found>
  /** Closes the connections. */
  close(): void
}

interface AnsweredPerson {
  readonly uuid: string
  readonly value_at_data_point: number | null
}

/** The members in the answers of the routes that the bench asks. Each route has some of them. */
interface AnsweredPage {
  readonly results?: readonly { readonly people: readonly AnsweredPerson[] }[]
  readonly result?: readonly {
    readonly person: AnsweredPerson
    readonly appearances: readonly number[]
  }[]
}

/** Returns the side of a daemon. */
export function daemonSide(url: string): Side {
  const agent = new Agent({ keepAlive: true })
  const ask = async (part: QuestionPart, limit: number, offset: number): Promise<AnsweredPage> => {
    const text = await fetchText(agent, `${url}${part.path}&limit=${limit}&offset=${offset}`)
    // If a member is missing, the comparison of persons finds a difference.
    return JSON.parse(text) as AnsweredPage
  }
  return {
    async page(part) {
      return rowsOf(await ask(part, PAGE_PERSONS, 0), part).length
    },
    async everybody(part) {
      const found = new Map<string, string>()
      for (let offset = 0; ; offset += PAGE_PERSONS_MAX) {
        const rows = rowsOf(await ask(part, PAGE_PERSONS_MAX, offset), part)
        for (const [uuid, value] of rows) found.set(uuid, value)
        if (rows.length < PAGE_PERSONS_MAX) return found
      }
    },
    close: () => agent.destroy(),
  }
}

/** Returns the side of ClickHouse. The caller that started the server also stops it. */
export function clickHouseSide(server: ClickHouse): Side {
  return {
    async page({ select, order }) {
      const limit = `ORDER BY ${order} LIMIT ${PAGE_PERSONS}`
      return linesOf(await server.query(`${select} ${limit} FORMAT TabSeparated`)).length
    },
    async everybody({ select }) {
      const found = new Map<string, string>()
      for (const line of linesOf(await server.query(`${select} FORMAT TabSeparated`))) {
        const [uuid = '', value = ''] = line.split('\t')
        found.set(uuid, value)
      }
      return found
    },
    close: () => undefined,
  }
}

/** Throws unless both sides have found the same persons with the same values. Returns the number of persons. */
export function expectSame(question: string, ours: Found, theirs: Found): number {
  const differing = [...ours].find(([uuid, value]) => theirs.get(uuid) !== value)
  if (differing !== undefined || ours.size !== theirs.size) {
    const example =
      differing === undefined ? '' : `: ${differing.join(' ')} and ${theirs.get(differing[0])}`
    throw new Error(`${question}: ${ours.size} and ${theirs.size} persons differ${example}`)
  }
  if (ours.size === 0) throw new Error(`${question}: nobody was found`)
  return ours.size
}

function rowsOf(page: AnsweredPage, { value }: QuestionPart): [string, string][] {
  if (value === 'appearances') {
    return (page.result ?? []).map(({ person, appearances }) => {
      const bits = appearances.reduce((sum, bit, week) => sum + bit * 2 ** week, 0)
      return [person.uuid, String(bits)]
    })
  }
  return (page.results?.[0]?.people ?? []).map((person) => {
    return [person.uuid, value === 'count' ? String(person.value_at_data_point) : '']
  })
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.trimEnd().split('\n')
}

async function fetchText(agent: Agent, url: string): Promise<string> {
  const headers = { authorization: `Bearer ${PERSONAL_KEY}` }
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { agent, headers }, resolve).on('error', reject)
  })
  const text = await readText(response)
  if (response.statusCode !== 200) {
    throw new Error(`${url} answered ${response.statusCode}: ${text.slice(0, 300)}`)
  }
  return text
}
