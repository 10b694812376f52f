/**
 * The questions of the analytic routes of persons as one: what can be asked, what is answered, and which
 * algorithm answers it. Shapes of what crosses threads. Source: docs/COMPATIBILITY.md, "Analytic person
 * routes".
 */
import type {
  LifecycleParameters,
  RetentionParameters,
  StickinessParameters,
  TrendsParameters,
} from '../wire/analytics.ts'
import type { CorrelationParameters, FunnelParameters } from '../wire/funnel.ts'
import type { PathParameters } from '../wire/path.ts'
import type { ActorPage, AnalyticContext } from './analytic-query.ts'
import { correlationActors } from './correlation.ts'
import type { EventScanner } from './event-columns.ts'
import { funnelActors } from './funnel.ts'
import { lifecycleActors } from './lifecycle.ts'
import { pathActors } from './path.ts'
import { retentionRows } from './retention.ts'
import { stickinessActors } from './stickiness.ts'
import { trendsActors } from './trends.ts'

/** What is asked. */
export type AnalyticQuestion =
  | { readonly kind: 'trends'; readonly parameters: TrendsParameters }
  | { readonly kind: 'funnel'; readonly parameters: FunnelParameters }
  | { readonly kind: 'correlation'; readonly parameters: CorrelationParameters }
  | { readonly kind: 'lifecycle'; readonly parameters: LifecycleParameters }
  | { readonly kind: 'path'; readonly parameters: PathParameters }
  | { readonly kind: 'retention'; readonly parameters: RetentionParameters }
  | { readonly kind: 'stickiness'; readonly parameters: StickinessParameters }

/** A question about a project. */
export interface AnalyticQuery extends Omit<AnalyticContext, 'actions'> {
  readonly question: AnalyticQuestion
}

/** A person of an answer. */
export interface PersonActorView {
  readonly type: 'person'
  /** The uuid. */
  readonly id: string
  readonly uuid: string
  readonly created_at: string
  readonly properties: Readonly<Record<string, unknown>>
  readonly is_identified: boolean
  readonly name: string
  /** The oldest links first, 1000 at most. */
  readonly distinct_ids: readonly string[]
  readonly matched_recordings: readonly never[]
  readonly value_at_data_point: number | null
}

/** A group of an answer. */
export interface GroupActorView {
  readonly type: 'group'
  /** The key. */
  readonly id: string
  readonly group_key: string
  readonly group_type_index: number
  /** Null when nothing was ever said about the group. */
  readonly created_at: string | null
  readonly properties: Readonly<Record<string, unknown>>
  readonly matched_recordings: readonly never[]
  readonly value_at_data_point: number | null
}

/** One page of an answer. */
export interface AnalyticAnswer {
  readonly people: readonly (PersonActorView | GroupActorView)[]
  /** For each of `people`; null for all but retention. */
  readonly appearances: readonly (readonly number[])[] | null
  /** Another page may follow. */
  readonly isFull: boolean
  /** Actors of the page that do not exist any more. */
  readonly missingPersons: number
}

/** Reads that the front hands to the threads for analytics. */
export interface AnalyticQueries {
  /**
   * Answers a question. `onCancel` is told what to call when nobody waits any more. Rejects with
   * `ServiceError`: 400, `query_too_large`, `query_timeout`, and 503 when too many questions wait.
   */
  analyse(query: AnalyticQuery, onCancel: (cancel: () => void) => void): Promise<AnalyticAnswer>
}

/** A page of an answer before its persons are looked up. */
export interface AnalyticPage extends ActorPage {
  /** For each actor; null for all but retention. */
  readonly appearances: readonly (readonly number[])[] | null
}

/** Answers a question. Throws 400 for what cannot be asked, and as `EventScanner.scan`. */
export function runQuestion(
  question: AnalyticQuestion,
  context: AnalyticContext,
  scanner: EventScanner,
): AnalyticPage {
  if (question.kind !== 'retention') {
    return { ...actorsOf(question, context, scanner), appearances: null }
  }
  const { rows, isFull } = retentionRows(question.parameters, context, scanner)
  return {
    actors: rows.map(({ person }) => ({ kind: 'person', person, value: null })),
    appearances: rows.map(({ appearances }) => appearances),
    isFull,
  }
}

function actorsOf(
  question: Exclude<AnalyticQuestion, { readonly kind: 'retention' }>,
  context: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  switch (question.kind) {
    case 'trends':
      return trendsActors(question.parameters, context, scanner)
    case 'funnel':
      return funnelActors(question.parameters, context, scanner)
    case 'correlation':
      return correlationActors(question.parameters, context, scanner)
    case 'lifecycle':
      return lifecycleActors(question.parameters, context, scanner)
    case 'path':
      return pathActors(question.parameters, context, scanner)
    case 'stickiness':
      return stickinessActors(question.parameters, context, scanner)
  }
}
