/** The message that is printed once, after the first start has created a data directory. */
import type { FirstStart } from '../../store/open-store.ts'

/**
 * Returns the base URL, the keys, a login link for the console if there is one, and two commands that show that
 * everything works. The message ends with a line break.
 */
export function firstStartMessage(first: FirstStart, link?: string): string {
  const { baseUrl, projectId, projectKey, personalKey, credentialsPath } = first
  const event = { api_key: projectKey, event: 'hello', distinct_id: 'me' }
  return `
Tenrec is set up. The keys below are not shown again. They are also stored in
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

/** Quotes a text so that a shell reads it as one word. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
