/**
 * The two sides of the bench `analytics`, asked over HTTP on a connection that stays open: a page of 100
 * persons, as charts ask for it, and everybody, to see that both sides mean the same.
 */
import { Agent, get, type IncomingMessage } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import type { ClickHouse } from '../baselines/clickhouse.ts'
import { PERSONAL_KEY } from '../daemon.ts'
import type { QuestionPart } from './analytics-questions.ts'

/** Persons of a page that is timed. */
const PAGE_PERSONS = 100
/** Persons of a page when all are wanted. */
const PAGE_PERSONS_MAX = 10_000

/** Person uuids with what is said about each as text. */
export type Found = ReadonlyMap<string, string>

/** Who answers questions. */
export interface Side {
  /** The first page; how many persons are on it. */
  page(part: QuestionPart): Promise<number>
  everybody(part: QuestionPart): Promise<Found>
  /** Closes the connections. */
  close(): void
}

interface AnsweredPerson {
  readonly uuid: string
  readonly value_at_data_point: number | null
}

/** The members that the routes of this bench answer with, of which each has some. */
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
    // Whatever is missing is missed when persons are compared.
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

/** ClickHouse; whoever started it stops it. */
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

/** Throws unless both sides found the same persons and say the same about them. How many there are. */
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
