/**
 * Where a request comes from when it does not say so: from the device of a user or from a server. Flags
 * may be limited to one of them. Source: docs/COMPATIBILITY.md, "Flag requests".
 */
import type { EvaluationRuntime } from '../../../rules/flags/types.ts'
import type { RequestHead } from '../../server/framing.ts'

const CLIENT_AGENT =
  /^posthog-(?:android|ios|react-native|flutter)\/|(?:Mozilla|Chrome|Safari|Firefox|Edge)\//
const SERVER_AGENT =
  /^(?:posthog-(?:python|ruby|php|java|go|node|dotnet|elixir)\/|python-requests\/|curl\/)/

/** The guess; null: nothing tells. */
export function guessRuntime(
  head: Pick<RequestHead, 'userAgent' | 'origin' | 'isFromPage'>,
): EvaluationRuntime | null {
  const { userAgent } = head
  if (userAgent !== '') {
    if (CLIENT_AGENT.test(userAgent)) return 'client'
    if (SERVER_AGENT.test(userAgent)) return 'server'
  }
  return head.origin !== '' || head.isFromPage ? 'client' : null
}
