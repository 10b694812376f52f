/**
 * `tenrec snippet ...`: PostHog's `<script>` for pages. Its files belong to the npm package posthog-js,
 * which is large and not needed for serving events: they are installed when somebody asks for them.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { OperatorError } from '../../base/errors.ts'
import { baseUrlOf } from '../../config/base-url.ts'
import {
  isPageScript,
  SDK_LICENCE,
  SDK_NAME,
  SDK_VERSION,
} from '../../http/routes/public/sdk-files.ts'
import { readFormat } from '../../store/directory/data-dir.ts'
import { type Commands, JSON_OPTION } from '../lib/command.ts'
import { projectOf } from '../lib/with-store.ts'
import { DOWNLOAD_MS_MAX } from '../limits.ts'

/** SHA-512 of the package as published, in base64: as in the lock file of whoever installs it. */
export const PACKAGE_SHA512 =
  'vji+h92IHaLlFSEnRH1hwe8uLWGOdDUImmPXexj/+V7Xm7HTxIQisYE/Kom7Aaw4DRpzfdhQxiyAN1YVYR4G8Q=='

const run = promisify(execFile)

/** `tenrec snippet ...`. */
export const COMMANDS: Commands = [
  {
    name: 'snippet show',
    sentence: 'Print what to put into the <head> of a page.',
    options: { '--project ID': 'The project; 1 without it.' },
    settings: ['dataDir', 'host', 'port', 'publicUrl'],
    async run(input) {
      const settings = input.settings()
      const { apiKey } = await projectOf(input, input.projectId)
      const url = attribute(baseUrlOf(settings, settings.port))
      input.io.out(
        `<script src="${url}/static/loader.js" data-project-token="${attribute(apiKey)}" data-api-host="${url}"></script>\n`,
      )
      return 0
    },
  },
  {
    name: 'snippet install',
    sentence: `Put the browser files of ${SDK_NAME} ${SDK_VERSION} into the data directory: pages can then load them from here.`,
    options: {
      '--from FILE': `What 'npm pack ${SDK_NAME}@${SDK_VERSION}' has written; without it npm is run.`,
      ...JSON_OPTION,
    },
    async run(input) {
      const { dataDir } = input
      if (readFormat(dataDir) === null) {
        throw new OperatorError(`there is no store in ${dataDir}: run 'tenrec init' first`)
      }
      const work = mkdtempSync(join(tmpdir(), 'tenrec-snippet-'))
      try {
        const file = input.text('from') ?? (await download(work))
        const folder = join(dataDir, SDK_NAME)
        const files = await installSnippet({ file, work, folder, sha512: PACKAGE_SHA512 })
        return { version: SDK_VERSION, folder, files }
      } finally {
        rmSync(work, { recursive: true, force: true })
      }
    },
  },
]

function attribute(text: string): string {
  return text.replace(/[&"<]/g, (character) => `&#${character.charCodeAt(0)};`)
}

/** The package as npm gives it out; answers the path of the file. */
async function download(work: string): Promise<string> {
  const name = `${SDK_NAME}@${SDK_VERSION}`
  try {
    const words = ['pack', name, '--ignore-scripts', '--silent', '--pack-destination', work]
    await run('npm', words, { cwd: work, timeout: DOWNLOAD_MS_MAX })
  } catch (cause) {
    const wayOut = `run 'npm pack ${name}' where it works, and 'tenrec snippet install --from FILE' here`
    throw new OperatorError(`npm could not fetch ${name}: ${wayOut}`, { cause })
  }
  return join(work, `${SDK_NAME}-${SDK_VERSION}.tgz`)
}

/** A package, and where its files go. */
export interface SnippetSource {
  /** As `npm pack` writes it. */
  readonly file: string
  /** For what is on the way; of the caller. */
  readonly work: string
  /** Replaced as a whole. */
  readonly folder: string
  /** What the file must have, in base64. */
  readonly sha512: string
}

/**
 * Puts the scripts of a package into a folder from which `SdkFiles` serves them; answers how many. Throws
 * `OperatorError` when it is another package, or cannot be read or unpacked.
 */
export async function installSnippet(source: SnippetSource): Promise<number> {
  return replaceFolder(await unpack(source), source.folder)
}

/** Answers the folder of the package. */
async function unpack({ file, work, sha512 }: SnippetSource): Promise<string> {
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (cause) {
    throw new OperatorError(`${file} cannot be read: ${String(cause)}`, { cause })
  }
  if (createHash('sha512').update(bytes).digest('base64') !== sha512) {
    const detail = `fetch it with 'npm pack ${SDK_NAME}@${SDK_VERSION}'`
    throw new OperatorError(`${file} is not ${SDK_NAME} ${SDK_VERSION} as published: ${detail}`)
  }
  try {
    await run('tar', ['-xzf', file, '-C', work])
  } catch (cause) {
    throw new OperatorError(`${file} could not be unpacked: is there no tar?`, { cause })
  }
  return join(work, 'package')
}

/** Puts what is served in the place of what was there; answers the number of scripts. */
function replaceFolder(unpacked: string, folder: string): number {
  const draft = `${folder}.new`
  const scripts = readdirSync(join(unpacked, 'dist')).filter(isPageScript)
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(join(draft, 'dist'), { recursive: true })
  const names = ['package.json', SDK_LICENCE, ...scripts.map((name) => join('dist', name))]
  for (const name of names) {
    copyFileSync(join(unpacked, name), join(draft, name))
    // The daemon may run as somebody else than who installs.
    chmodSync(join(draft, name), 0o644)
  }
  for (const path of [draft, join(draft, 'dist')]) chmodSync(path, 0o755)
  rmSync(folder, { recursive: true, force: true })
  renameSync(draft, folder)
  return scripts.length
}
