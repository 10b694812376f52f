/** What the operator is told, once, when a data directory was filled for the first time. */
import type { FirstStart } from '../../store/open-store.ts'

/**
 * Base URL, keys, the way into the console if there is one, and two commands that prove that everything works.
 * Ends with a line break.
 */
export function firstStartMessage(first: FirstStart, link?: string): string {
  const { baseUrl, projectId, projectKey, personalKey, credentialsPath } = first
  const event = { api_key: projectKey, event: 'hello', distinct_id: 'me' }
  return `
Tenrec is set up. These keys are shown once; they are also in
${credentialsPath}, which you may delete.

  base URL      ${baseUrl}
  project key   ${projectKey}
  personal key  ${personalKey}
${link === undefined ? '' : `  console       ${link}\n`}
Capture an event:

  curl ${shellWord(`${baseUrl}/capture/`)} -H 'Content-Type: application/json' \\
    -d ${shellWord(JSON.stringify(event))}

Read it back:

  curl ${shellWord(`${baseUrl}/api/projects/${projectId}/events/`)} \\
    -H ${shellWord(`Authorization: Bearer ${personalKey}`)}

`
}

/** A word that a shell takes as it is. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
