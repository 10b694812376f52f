/**
 * The two sides of the bench `analytics`, asked over HTTP on a persistent connection: a page of 100 persons, as charts
 * request it, and all persons, to verify that both sides agree.
 */
import { Agent, get, type IncomingMessage } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import type { ClickHouse } from '../baselines/clickhouse.ts'
import { PERSONAL_KEY } from '../daemon.ts'
import type { QuestionPart } from './analytics-questions.ts'

/** The persons on a timed page. */
const PAGE_PERSONS = 100
/** The persons on a page when all are requested. */
const PAGE_PERSONS_MAX = 10_000

/** Person uuids, each with its value as text. */
export type Found = ReadonlyMap<string, string>

/** A side that answers questions. */
export interface Side {
  /** Requests the first page. Returns the number of persons on it. */
  page(part: QuestionPart): Promise<number>
  everybody(part: QuestionPart): Promise<Found>
  /** Closes the connections. */
  close(): void
}

interface AnsweredPerson {
  readonly uuid: string
  readonly value_at_data_point: number | null
}

/** The members in the answers of this bench's routes. Each route has some of them. */
interface AnsweredPage {
  readonly results?: readonly { readonly people: readonly AnsweredPerson[] }[]
  readonly result?: readonly {
    readonly person: AnsweredPerson
    readonly appearances: readonly number[]
  }[]
}

/** The daemon at `url`. */
export function daemonSide(url: string): Side {
  const agent = new Agent({ keepAlive: true })
  const ask = async (part: QuestionPart, limit: number, offset: number): Promise<AnsweredPage> => {
    const text = await fetchText(agent, `${url}${part.path}&limit=${limit}&offset=${offset}`)
    // A missing member is noticed when persons are compared.
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

/** ClickHouse. The caller that started it stops it. */
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

/** Throws unless both sides found the same persons with the same values. Returns the number of persons. */
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
