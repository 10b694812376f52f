/**
 * Code that sends events and reads flags. It contains the URL of this server and the key of the project, so that it can
 * be copied without changes.
 */
import { curlLine, loaderLine } from '../../kit.ts'

/** Code for one language or SDK. `text` returns the code. */
export interface Snippet {
  /** The value in the URL that chooses this snippet. */
  readonly id: string
  readonly name: string
  /** The command that the reader must run before the code works. */
  readonly before?: string
  readonly text: (origin: string, key: string) => string
}

const INSTALL_FILES = 'npx tenrec snippet install'

/**
 * Returns a script for web pages. Until array.js is loaded, it collects calls of the SDK in a list. array.js then makes
 * these calls.
 */
function arraySnippet(origin: string, key: string): string {
  return `<script>
  !function (list) {
    if (list.__SV) return
    window.posthog = list
    list.__SV = 1
    list._i = []
    list.people = []
    list.init = function (key, options, name) {
      for (const call of ['capture', 'identify', 'alias', 'group', 'register', 'unregister', 'reset',
        'setPersonProperties', 'onFeatureFlags', 'reloadFeatureFlags', 'opt_in_capturing', 'opt_out_capturing']) {
        list[call] = function () { list.push([call].concat(Array.from(arguments))) }
      }
      const script = document.createElement('script')
      script.async = true
      script.crossOrigin = 'anonymous'
      script.src = options.api_host + '/static/array.js'
      document.head.append(script)
      list._i.push([key, options, name || 'posthog'])
    }
  }(window.posthog || [])
  posthog.init('${key}', { api_host: '${origin}' })
</script>`
}

/** All snippets, the shortest first. */
export const SNIPPETS: readonly Snippet[] = [
  { id: 'script', name: '<script>', before: INSTALL_FILES, text: loaderLine },
  { id: 'array', name: 'PostHog snippet', before: INSTALL_FILES, text: arraySnippet },
  {
    id: 'js',
    name: 'posthog-js',
    before: 'npm install posthog-js',
    text: (origin, key) => `import posthog from 'posthog-js'

posthog.init('${key}', { api_host: '${origin}' })
posthog.identify('user-1', { email: 'ann@example.com' })
posthog.capture('signed up', { plan: 'free' })
posthog.onFeatureFlags(() => console.log(posthog.isFeatureEnabled('new-page')))`,
  },
  {
    id: 'node',
    name: 'posthog-node',
    before: 'npm install posthog-node',
    text: (origin, key) => `import { PostHog } from 'posthog-node'

const client = new PostHog('${key}', { host: '${origin}' })
client.capture({ distinctId: 'user-1', event: 'signed up', properties: { plan: 'free' } })
console.log(await client.isFeatureEnabled('new-page', 'user-1'))
await client.shutdown()`,
  },
  {
    id: 'curl',
    name: 'curl',
    text: curlLine,
  },
  {
    id: 'openfeature',
    name: 'OpenFeature',
    before:
      'npm install @openfeature/server-sdk @openfeature/ofrep-provider @openfeature/ofrep-core',
    text: (origin, key) => `import { OFREPProvider } from '@openfeature/ofrep-provider'
import { OpenFeature } from '@openfeature/server-sdk'

await OpenFeature.setProviderAndWait(
  new OFREPProvider({
    baseUrl: '${origin}',
    headers: [['Authorization', 'Bearer ${key}']],
  }),
)
const isOn = await OpenFeature.getClient().getBooleanValue('new-page', false, { targetingKey: 'user-1' })`,
  },
]
