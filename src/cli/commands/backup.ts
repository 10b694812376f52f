/** `tenrec backup`, `tenrec backup list`, `tenrec backup verify` and `tenrec restore`. */
import { existsSync, readdirSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { resolve } from 'node:path'
import {
  checkBackups,
  createBackup,
  listBackups,
  restoreBackup,
} from '../../store/maintenance/backup/backups.ts'
import { type Commands, JSON_OPTION } from '../lib/command.ts'
import { print, printable } from '../lib/output.ts'
import { withProgress } from '../lib/progress.ts'
import { noteInStore } from '../lib/with-store.ts'
import { stepText } from './migrate.ts'
import { PROBLEMS_FOUND, verifyAndReport } from './verify.ts'

/** The niceness of a backup. systemd/tenrec-backup.service has the same value. */
const NICENESS = 10
const THREADS = '/proc/self/task'

/** `tenrec backup ...` and `tenrec restore`. */
export const COMMANDS: Commands = [
  {
    name: 'backup',
    sentence:
      'Back up the store to a directory, even while the daemon runs. Only new data is written.',
    operands: ['FOLDER'],
    options: {
      '--keep NUMBER':
        'Number of backups of this store to keep in the directory. Older ones are removed. Default: keep all.',
      ...JSON_OPTION,
    },
    async run(input) {
      const { io, operand, dataDir } = input
      const keep = input.has('keep') ? input.id('keep', 1) : null
      const startedAtMs = io.clock.monotonic()
      lowerPriority()
      const { newBytes, newChunks, ...result } = await withProgress(io, 'backup', (progress) =>
        createBackup({
          dataDir,
          folder: operand,
          nowMs: io.clock.now(),
          keep,
          onProgress: (bytes) => progress.update(bytes),
        }),
      )
      return {
        name: result.name,
        folder: resolve(operand),
        entries: result.entries,
        bytes: result.bytes,
        new_bytes: newBytes,
        chunks: result.chunks,
        new_chunks: newChunks,
        removed: result.removed,
        elapsed_ms: Math.round(io.clock.monotonic() - startedAtMs),
      }
    },
  },
  {
    name: 'backup list',
    sentence: 'List the backups in a directory, oldest first.',
    operands: ['FOLDER'],
    options: JSON_OPTION,
    settings: [],
    run: ({ operand }) =>
      listBackups(resolve(operand)).map(({ name, createdAt, program, entries, bytes }) => {
        return { name, created_at: createdAt, program, entries, bytes }
      }),
  },
  {
    name: 'backup verify',
    sentence: 'Read all backups in a directory, and compare them with their checksums.',
    operands: ['FOLDER'],
    options: JSON_OPTION,
    settings: [],
    async run({ io, operand, isJson }) {
      lowerPriority()
      const { findings, ...row } = await withProgress(io, 'backup verify', (progress) =>
        checkBackups(operand, (bytes) => progress.update(bytes)),
      )
      const isSound = findings.length === 0
      if (!isJson) for (const finding of findings) io.out(`${printable(finding)}\n`)
      const shown = isJson
        ? { is_sound: isSound, ...row, findings }
        : { ...row, findings: findings.length }
      print(io, shown, isJson)
      return isSound ? 0 : PROBLEMS_FOUND
    },
  },
  {
    name: 'restore',
    sentence:
      'Restore a data directory from a backup and check it. No daemon may run on the data directory. The exit code is 3 if the restored store is damaged.',
    operands: ['FOLDER'],
    options: {
      '--backup NAME':
        "Name of the backup, as printed by 'tenrec backup list'. Default: the newest backup.",
      '--force': 'Replace an existing store.',
      '--verify':
        "Also print the result of the check if the restored store is sound, as 'tenrec verify' does.",
      ...JSON_OPTION,
    },
    async run(input) {
      const { io, operand, dataDir, isJson } = input
      const result = await withProgress(io, 'restore', (progress) =>
        restoreBackup({
          folder: operand,
          name: input.text('backup') ?? null,
          dataDir,
          isForced: input.has('force'),
          onProgress: (bytes, total) => progress.update(bytes, total),
          onStep: (step) => {
            progress.finish()
            io.err(stepText(step))
          },
        }),
      )
      await noteInStore(input, result.name)
      const row = {
        name: result.name,
        created_at: result.createdAt,
        data_dir: resolve(dataDir),
        format: result.format,
        entries: result.entries,
        bytes: result.bytes,
      }
      print(io, row, isJson)
      return verifyAndReport(input, !input.has('verify'))
    },
  },
]

/**
 * Lowers the priority of all threads of this process, and of the threads that they start later, so that the backup does
 * not slow down a daemon. On Linux, each thread has its own priority. If the priority cannot be changed, the command
 * runs anyway.
 */
function lowerPriority(): void {
  if (!existsSync(THREADS)) return
  for (const thread of readdirSync(THREADS)) {
    const id = Number(thread)
    try {
      if (getPriority(id) < NICENESS) setPriority(id, NICENESS)
    } catch {
      // The thread has ended, or the system does not allow the change.
    }
  }
}
