/**
 * `/decide/` and `/flags/`: which flags are on for a user. Everything happens in place, in microseconds:
 * the body is small, flags are compiled, and a person is read through the memory map if a flag needs it.
 * Source: interface description, sections 4.4 and 9; docs/COMPATIBILITY.md, "Decisions".
 */
import type { HttpRequest } from 'uWebSockets.js'
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import { FLAG_BODY_BYTES_MAX, KEY_CHARACTERS_MAX } from '../../base/limits.ts'
import { isEmptyValue } from '../../ingest/fields.ts'
import type { Project, ProjectDirectory } from '../../ingest/project-directory.ts'
import type { DecisionService } from '../../worker/decisions.ts'
import { type BodyBudget, collectBody } from '../body.ts'
import type { Exchange } from '../exchange.ts'
import type { RequestHead } from '../framing.ts'
import { send, sendEmpty, sendJson, sendMethodNotAllowed } from '../respond.ts'
import { type AnswerShape, answerBytes, NO_DECISIONS } from './flag-answers.ts'
import { type FlagQuery, isTrue } from './flag-query.ts'
import {
  decisionRequestOf,
  type FlagRequestHead,
  keepHead,
  readFlagRequest,
} from './flag-request.ts'

/** The paths; the handler gets their index. */
export const DECISION_PATHS = ['/decide', '/flags'] as const

const DECIDE_INDEX = 0
const ALLOW = 'GET, HEAD, POST, OPTIONS'
const DECIMAL_INTEGER = /^[+-]?\d{1,15}$/

/** What decisions over HTTP work with. */
export interface DecideOptions {
  readonly clock: Clock
  readonly directory: ProjectDirectory
  readonly budget: BodyBudget
  readonly decisions: DecisionService
}

/** Answers a request of DECISION_PATHS. `head` is read before this returns. */
export function handleDecision(
  options: DecideOptions,
  exchange: Exchange,
  request: HttpRequest,
  head: RequestHead,
  pathIndex: number,
): void {
  const isDecide = pathIndex === DECIDE_INDEX
  switch (exchange.method) {
    case 'POST': {
      const kept = keepHead(head, request.getQuery() ?? '')
      collectBody(exchange, head.contentLength, {
        bytesMax: FLAG_BODY_BYTES_MAX,
        budget: options.budget,
        onBody: (body) => {
          answer(exchange, decisionBytes(options, kept, body, isDecide))
        },
      })
      return
    }
    case 'GET':
    case 'HEAD':
      answer(
        exchange,
        answerBytes({
          shape: isDecide ? 'decideEmpty' : 'flags2',
          decisions: NO_DECISIONS,
          nowMs: options.clock.now(),
          hasConfig: true,
        }),
      )
      return
    case 'OPTIONS':
      if (isDecide) sendJson(exchange, 200, { status: 1 })
      else sendEmpty(exchange, 204)
      return
    default:
      sendMethodNotAllowed(exchange, ALLOW)
  }
}

/** `body` is in memory that is used again: `send` copies what does not leave at once. */
function answer(exchange: Exchange, body: Uint8Array): void {
  send(exchange, { status: 200, contentType: 'application/json', body, isBodyReused: true })
}

/** The answer to a body. The order of the checks is part of the wire: body, key, project, distinct_id. */
function decisionBytes(
  { clock, directory, decisions }: DecideOptions,
  head: FlagRequestHead,
  body: Uint8Array,
  isDecide: boolean,
): Uint8Array {
  const request = readFlagRequest(head, body, isDecide)
  const project = resolveFlagProject(request.key, request.projectId, directory)
  const nowMs = clock.now()
  const { query } = head
  const shape = isDecide ? decideShape(query.version) : flagsShape(query.version)
  const hasConfig = isDecide || isConfigWanted(query)
  if (request.areFlagsDisabled) {
    return answerBytes({ shape, decisions: NO_DECISIONS, nowMs, hasConfig })
  }
  const { distinctId } = request
  if (distinctId === null) {
    const detail = 'distinct_id is missing; send the id of the user as a text or a number'
    throw new ServiceError('missing_distinct_id', detail)
  }
  const asked = decisionRequestOf(request, head, distinctId, nowMs)
  const decided = decisions.decide(project.id, asked)
  return answerBytes({ shape, decisions: decided, nowMs, hasConfig })
}

/**
 * The project of a key: its own, or for a personal key the one that is named. Throws ServiceError
 * `no_api_key`, `invalid_api_key`, `invalid_personal_api_key` or `invalid_project`.
 * Source: docs/COMPATIBILITY.md, "Refused flag requests".
 */
export function resolveFlagProject(
  key: unknown,
  projectId: unknown,
  directory: ProjectDirectory,
): Project {
  if (isEmptyValue(key)) {
    const detail = "the request has no project key; send it as 'token' or 'api_key' in the body"
    throw new ServiceError('no_api_key', detail)
  }
  const text = typeof key === 'string' && key.length <= KEY_CHARACTERS_MAX ? key : null
  const own = text === null ? null : directory.projectByKey(text)
  if (own !== null) return own
  if (projectId === undefined) {
    const detail = 'the project key is not valid; copy it from the settings of the project'
    throw new ServiceError('invalid_api_key', detail)
  }
  const access = text === null ? null : directory.personalKey(text)
  if (access === null) {
    const detail = 'the personal key is not valid; flags are asked for with the project key'
    throw new ServiceError('invalid_personal_api_key', detail)
  }
  // Only these: an object may have members called toString and valueOf that are no functions.
  const isNumeric = typeof projectId === 'number' || typeof projectId === 'string'
  const id = isNumeric ? Number(projectId) : Number.NaN
  const project = Number.isSafeInteger(id) ? directory.projectById(id) : null
  if (project === null || (access.projects !== 'all' && !access.projects.includes(id))) {
    const detail = 'the key does not reach that project, or the project does not exist'
    throw new ServiceError('invalid_project', detail, { attr: 'project_id' })
  }
  return project
}

/** A version that is no integer means 2: an SDK once sent its own version number. */
function decideShape(version: string | null): AnswerShape {
  const text = version?.trim() ?? ''
  if (text === '') return 'decide1'
  if (!DECIMAL_INTEGER.test(text)) return 'decide2'
  const number = Number(text)
  if (number <= 1) return 'decide1'
  if (number === 2) return 'decide2'
  return number === 3 ? 'decide3' : 'decide4'
}

function flagsShape(version: string | null): AnswerShape {
  const text = version?.trim() ?? ''
  if (text === '') return 'flags2'
  return DECIMAL_INTEGER.test(text) && Number(text) >= 2 ? 'flags2' : 'flags1'
}

function isConfigWanted({ version, config }: FlagQuery): boolean {
  return config === null ? version === null : isTrue(config)
}
