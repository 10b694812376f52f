/**
 * `tenrec snippet ...`: prints the `<script>` element for pages, and installs the files that it loads. The files belong
 * to the npm package posthog-js, which is large and not needed to receive events, so they are installed only on
 * request.
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
  SDK_LICENSE,
  SDK_NAME,
  SDK_VERSION,
} from '../../http/routes/public/sdk-files.ts'
import { readFormat } from '../../store/directory/data-dir.ts'
import { type Commands, JSON_OPTION } from '../lib/command.ts'
import { projectOf } from '../lib/with-store.ts'
import { DOWNLOAD_MS_MAX } from '../limits.ts'

/** The SHA-512 of the published package in base64, in the form that lock files of npm have. */
export const PACKAGE_SHA512 =
  'vji+h92IHaLlFSEnRH1hwe8uLWGOdDUImmPXexj/+V7Xm7HTxIQisYE/Kom7Aaw4DRpzfdhQxiyAN1YVYR4G8Q=='

const run = promisify(execFile)

/** `tenrec snippet ...`. */
export const COMMANDS: Commands = [
  {
    name: 'snippet show',
    sentence: 'Print the <script> element for the <head> of your pages.',
    options: { '--project ID': 'ID of the project. Default: 1.' },
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
    sentence: `Install the browser files of ${SDK_NAME} ${SDK_VERSION} into the data directory, so that pages can load them from the daemon.`,
    options: {
      '--from FILE': `Package file that 'npm pack ${SDK_NAME}@${SDK_VERSION}' wrote. Default: download it with npm.`,
      ...JSON_OPTION,
    },
    async run(input) {
      const { dataDir } = input
      if (readFormat(dataDir) === null) {
        throw new OperatorError(`There is no store in ${dataDir}. Run 'tenrec init' first.`)
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

/** Downloads the package with npm, and returns the path of the file. */
async function download(work: string): Promise<string> {
  const name = `${SDK_NAME}@${SDK_VERSION}`
  try {
    const words = ['pack', name, '--ignore-scripts', '--silent', '--pack-destination', work]
    await run('npm', words, { cwd: work, timeout: DOWNLOAD_MS_MAX })
  } catch (cause) {
    const wayOut = `Run 'npm pack ${name}' on a machine that can reach npm, and then 'tenrec snippet install --from FILE' here.`
    throw new OperatorError(`npm could not download ${name}. ${wayOut}`, { cause })
  }
  return join(work, `${SDK_NAME}-${SDK_VERSION}.tgz`)
}

/** A downloaded package, and the directories for its files. */
export interface SnippetSource {
  /** Path of the file that `npm pack` wrote. */
  readonly file: string
  /** Directory for temporary files. The caller creates and removes it. */
  readonly work: string
  /** The directory in which the files are served. It is replaced completely. */
  readonly folder: string
  /** Expected SHA-512 of the file, in base64. */
  readonly sha512: string
}

/**
 * Installs the scripts of a package into a directory from which `SdkFiles` serves them, and returns their number.
 * Throws `OperatorError` if the file is another package, or cannot be read or unpacked.
 */
export async function installSnippet(source: SnippetSource): Promise<number> {
  return replaceFolder(await unpack(source), source.folder)
}

/** Unpacks the file, and returns the directory of the package. */
async function unpack({ file, work, sha512 }: SnippetSource): Promise<string> {
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (cause) {
    throw new OperatorError(`${file} cannot be read: ${String(cause)}.`, { cause })
  }
  if (createHash('sha512').update(bytes).digest('base64') !== sha512) {
    const detail = `Download it with 'npm pack ${SDK_NAME}@${SDK_VERSION}'.`
    throw new OperatorError(
      `${file} is not the published package ${SDK_NAME} ${SDK_VERSION}. ${detail}`,
    )
  }
  try {
    await run('tar', ['-xzf', file, '-C', work])
  } catch (cause) {
    throw new OperatorError(
      `${file} could not be unpacked. Check that the program tar is installed.`,
      { cause },
    )
  }
  return join(work, 'package')
}

/** Replaces the target directory with the files to serve, and returns the number of scripts. */
function replaceFolder(unpacked: string, folder: string): number {
  const draft = `${folder}.new`
  const scripts = readdirSync(join(unpacked, 'dist')).filter(isPageScript)
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(join(draft, 'dist'), { recursive: true })
  const names = ['package.json', SDK_LICENSE, ...scripts.map((name) => join('dist', name))]
  for (const name of names) {
    copyFileSync(join(unpacked, name), join(draft, name))
    // The daemon may run as a different user.
    chmodSync(join(draft, name), 0o644)
  }
  for (const path of [draft, join(draft, 'dist')]) chmodSync(path, 0o755)
  rmSync(folder, { recursive: true, force: true })
  renameSync(draft, folder)
  return scripts.length
}
