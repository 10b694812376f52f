/**
 * `/decide/` and `/flags/`: which flags are on for a user. Everything happens in place, in microseconds:
 * the body is small, flags are compiled, and a person is read through the memory map if a flag needs it.
 * Source: interface description, sections 4.4 and 9; docs/COMPATIBILITY.md, "Decisions".
 */
import type { Clock } from '../../../base/clock.ts'
import { ServiceError } from '../../../base/errors.ts'
import { FLAG_BODY_BYTES_MAX, KEY_CHARACTERS_MAX } from '../../../base/limits.ts'
import type { DecisionService } from '../../../engine/front/decisions.ts'
import { COOKIELESS_ID } from '../../../rules/capture/cookieless.ts'
import { isEmptyValue } from '../../../rules/capture/fields.ts'
import type { Project, ProjectDirectory } from '../../../rules/capture/project-directory.ts'
import type { Decisions } from '../../../rules/flags/types.ts'
import { type BodyBudget, collectBody } from '../../server/body.ts'
import type { Exchange } from '../../server/exchange.ts'
import type { RequestHead } from '../../server/framing.ts'
import { sendEmpty, sendJson, sendMethodNotAllowed, sendReused } from '../../server/respond.ts'
import type { CookielessVisitors, Sender } from './cookieless-visitors.ts'
import { answerBytes, NO_DECISIONS } from './flag-answers.ts'
import {
  decisionRequestOf,
  type FlagRequestHead,
  keepHead,
  readFlagRequest,
} from './flag-request.ts'
import type { KnownDecisions } from './known-decisions.ts'
import { type BrowserCaptureOf, decisionOpening } from './remote-config.ts'

/** The paths; the handler gets their index. */
export const DECISION_PATHS = ['/decide', '/flags'] as const

const DECIDE_INDEX = 0
/** A GET names no project: it gets the defaults. */
const NO_PROJECT = 0
const ALLOW = 'GET, HEAD, POST, OPTIONS'

/** What decisions over HTTP work with. */
export interface DecideOptions {
  readonly clock: Clock
  readonly directory: ProjectDirectory
  readonly budget: BodyBudget
  readonly decisions: DecisionService
  readonly known: KnownDecisions
  readonly browserCapture: BrowserCaptureOf
  readonly visitors: CookielessVisitors
}

/** Answers a request of DECISION_PATHS. `head` is read before this returns. */
export function handleDecision(
  options: DecideOptions,
  exchange: Exchange,
  head: RequestHead,
  pathIndex: number,
): void {
  const isDecide = pathIndex === DECIDE_INDEX
  switch (exchange.method) {
    case 'POST': {
      const kept = keepHead(head)
      const sender = options.visitors.senderOf(exchange, head)
      collectBody(exchange, head.contentLength, {
        bytesMax: FLAG_BODY_BYTES_MAX,
        budget: options.budget,
        onBody: (body) => {
          sendReused(exchange, decisionBytes(options, kept, sender, body, isDecide))
        },
      })
      return
    }
    case 'GET':
    case 'HEAD':
      sendReused(
        exchange,
        answerBytes({
          shape: isDecide ? 'decideEmpty' : 'flags2',
          decisions: NO_DECISIONS,
          nowMs: options.clock.now(),
          opening: decisionOpening(options.browserCapture(NO_PROJECT)),
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

/** The answer to a body. */
function decisionBytes(
  options: DecideOptions,
  head: FlagRequestHead,
  sender: Sender | null,
  body: Uint8Array,
  isDecide: boolean,
): Uint8Array {
  const { clock, known } = options
  const { query } = head
  const nowMs = clock.now()
  const name = known.nameOf(head, body)
  const before = name === null ? null : known.find(head, name)
  const call = { head, sender, body, isDecide, nowMs, name }
  const { projectId, decided } = before === null ? decideAnew(options, call) : before
  const hasConfig = isDecide || query.isConfigWanted
  return answerBytes({
    shape: isDecide ? query.decideShape : query.flagsShape,
    opening: hasConfig ? decisionOpening(options.browserCapture(projectId)) : null,
    decisions: decided,
    nowMs,
  })
}

/** What was decided, and for which project. */
interface ProjectDecisions {
  readonly projectId: number
  readonly decided: Decisions
}

interface DecisionCall {
  readonly head: FlagRequestHead
  /** Null: nobody whose cookies could be missing. */
  readonly sender: Sender | null
  readonly body: Uint8Array
  readonly isDecide: boolean
  readonly nowMs: number
  /** Under which the decision may be kept, or null. */
  readonly name: string | null
}

/** The order of the checks is part of the wire: body, key, project, distinct_id. */
function decideAnew(options: DecideOptions, call: DecisionCall): ProjectDecisions {
  const { directory, decisions, known } = options
  const { head, body, nowMs, name } = call
  const request = readFlagRequest(head, body, call.isDecide)
  const project = resolveFlagProject(request.key, request.projectId, directory)
  if (request.areFlagsDisabled) return { projectId: project.id, decided: NO_DECISIONS }
  const { distinctId } = request
  if (distinctId === null) {
    const detail = 'distinct_id is missing; send the id of the user as a text or a number'
    throw new ServiceError('missing_distinct_id', detail)
  }
  const { sender } = call
  const visitor =
    distinctId === COOKIELESS_ID && sender !== null
      ? options.visitors.idOf(sender, project.id, request.body, nowMs)
      : distinctId
  const asked = decisionRequestOf(request, head, visitor, nowMs)
  const { decided, basis } = decisions.decideRepeatably(project.id, asked)
  // Equal bytes of visitors without cookies mean somebody else each time.
  const isRepeatable = name !== null && visitor === distinctId
  // With a personal key, somebody may take the right to ask away.
  if (isRepeatable && basis !== null && request.key === project.apiKey) {
    known.keep(name, { head, apiKey: project.apiKey, projectId: project.id, decided, basis })
  }
  return { projectId: project.id, decided }
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
