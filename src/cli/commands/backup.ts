/** `tenrec backup`, `tenrec backup list`, `tenrec backup verify` and `tenrec restore`. */
import { resolve } from 'node:path'
import {
  checkBackups,
  createBackup,
  listBackups,
  restoreBackup,
} from '../../store/care/backup/backups.ts'
import { parseId } from '../lib/arguments.ts'
import { lowerPriority } from '../lib/background-priority.ts'
import { type Command, JSON_OPTION } from '../lib/command.ts'
import { printable, printRecord, printRows } from '../lib/output.ts'
import { Progress } from '../lib/progress.ts'
import { noteInStore } from '../lib/with-store.ts'
import { stepText } from './migrate.ts'
import { PROBLEMS_FOUND, verifyAndReport } from './verify.ts'

/** `tenrec backup`. */
export const BACKUP: Command = {
  name: 'backup',
  sentence:
    'Copy the store into a backup folder while the daemon runs; only what is new is written.',
  operands: ['FOLDER'],
  options: [
    {
      name: 'keep',
      placeholder: 'NUMBER',
      sentence: 'Keep that many backups in the folder and remove older ones; without it all stay.',
    },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const { io, operands, options } = input
    const keepText = options.get('keep')
    const keep = keepText === undefined ? null : parseId('--keep', keepText)
    const startedAtMs = io.clock.monotonic()
    lowerPriority()
    const progress = new Progress(io, 'backup', 'bytes')
    try {
      const result = await createBackup({
        dataDir: input.settings().dataDir,
        folder: operands[0] ?? '',
        nowMs: io.clock.now(),
        keep,
        onProgress: (bytes) => progress.update(bytes, null),
      })
      progress.finish()
      const row = {
        name: result.name,
        folder: resolve(operands[0] ?? ''),
        entries: result.entries,
        bytes: result.bytes,
        new_bytes: result.newBytes,
        chunks: result.chunks,
        new_chunks: result.newChunks,
        removed: result.removed,
        elapsed_ms: Math.round(io.clock.monotonic() - startedAtMs),
      }
      printRecord(io, row, options.has('json'))
      return 0
    } finally {
      progress.finish()
    }
  },
}

/** `tenrec backup list`. */
export const BACKUP_LIST: Command = {
  name: 'backup list',
  sentence: 'List the backups in a folder, oldest first.',
  operands: ['FOLDER'],
  options: [JSON_OPTION],
  settings: [],
  async run({ io, operands, options }) {
    const backups = listBackups(resolve(operands[0] ?? ''))
    const rows = backups.map(({ name, createdAt, program, entries, bytes }) => ({
      name,
      created_at: createdAt,
      program,
      entries,
      bytes,
    }))
    printRows(io, rows, options.has('json'))
    return 0
  },
}

/** `tenrec backup verify`. */
export const BACKUP_VERIFY: Command = {
  name: 'backup verify',
  sentence: 'Read all backups in a folder and compare them with their checksums.',
  operands: ['FOLDER'],
  options: [JSON_OPTION],
  settings: [],
  async run({ io, operands, options }) {
    lowerPriority()
    const progress = new Progress(io, 'backup verify', 'bytes')
    try {
      const check = await checkBackups(operands[0] ?? '', (bytes) => progress.update(bytes, null))
      progress.finish()
      const { findings, ...row } = check
      const isSound = findings.length === 0
      if (options.has('json'))
        io.out(`${JSON.stringify({ is_sound: isSound, ...row, findings })}\n`)
      else {
        for (const finding of findings) io.out(`${printable(finding)}\n`)
        printRecord(io, { ...row, findings: findings.length }, false)
      }
      return isSound ? 0 : PROBLEMS_FOUND
    } finally {
      progress.finish()
    }
  },
}

/** `tenrec restore`. */
export const RESTORE: Command = {
  name: 'restore',
  sentence: 'Make a data directory from a backup. The daemon must not be running on it.',
  operands: ['FOLDER'],
  options: [
    {
      name: 'backup',
      placeholder: 'NAME',
      sentence: "Which backup, as 'tenrec backup list' names it; without it the newest.",
    },
    { name: 'force', placeholder: null, sentence: 'Replace the store that is there.' },
    {
      name: 'verify',
      placeholder: null,
      sentence: "Check the restored store as 'tenrec verify' does.",
    },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const { io, operands, options } = input
    const { dataDir } = input.settings()
    const progress = new Progress(io, 'restore', 'bytes')
    try {
      const result = await restoreBackup({
        folder: operands[0] ?? '',
        name: options.get('backup') ?? null,
        dataDir,
        isForced: options.has('force'),
        onProgress: (bytes, total) => progress.update(bytes, total),
        onStep: (step) => {
          progress.finish()
          io.err(stepText(step))
        },
      })
      progress.finish()
      await noteInStore(input, dataDir, result.name)
      const row = {
        name: result.name,
        created_at: result.createdAt,
        data_dir: resolve(dataDir),
        format: result.format,
        entries: result.entries,
        bytes: result.bytes,
      }
      printRecord(io, row, options.has('json'))
    } finally {
      progress.finish()
    }
    return options.has('verify') ? await verifyAndReport(io, dataDir, options.has('json')) : 0
  },
}
