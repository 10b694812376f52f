/** Formats numbers and moments for readers. Moments are shown in the time zone of the project. */
import { lazy } from './lazy.ts'
import { project } from './session.ts'

const WHOLE = lazy(() => new Intl.NumberFormat('en', { maximumFractionDigits: 0 }))
const EXACT = lazy(() => new Intl.NumberFormat('en', { maximumFractionDigits: 2 }))
const SHORT = lazy(
  () => new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }),
)
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** Formats 1234567 as 1,234,567, with at most two decimal places. */
export function exact(value: number | null | undefined): string {
  if (value == null) return '–'
  return (Number.isInteger(value) ? WHOLE : EXACT)().format(value)
}

/** Formats 1234567 as 1.2M. */
export function short(value: number | null | undefined): string {
  return value == null ? '–' : SHORT().format(value)
}

/** Formats a share between 0 and 1 as 12.3 %. */
export function percent(share: number | null | undefined, places = 1): string {
  return share == null || !Number.isFinite(share) ? '–' : `${(share * 100).toFixed(places)} %`
}

/** Formats seconds as 1h 2m, 3m 4s or 5s. */
export function seconds(value: number | null | undefined): string {
  if (value == null) return '–'
  const whole = Math.round(value)
  if (whole < 60) return `${whole}s`
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`
  return `${Math.floor(whole / 86_400)}d ${Math.floor((whole % 86_400) / 3600)}h`
}

/** Formats bytes as 1.5 GiB. */
export function bytes(value: number | null | undefined): string {
  if (value == null) return '–'
  const power = value < 1 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10))
  const amount = value / 1024 ** power
  return `${amount >= 100 || power === 0 ? Math.round(amount) : amount.toFixed(1)} ${BYTE_UNITS[power]}`
}

/**
 * Formats a moment in the time zone of the project: 22 Nov 2026, 14:05:09. With `what`, only the day or only the time
 * of day is shown.
 */
export function time(moment: string | number | null | undefined, what?: 'day' | 'clock'): string {
  if (moment == null || moment === '') return '–'
  const date = new Date(moment)
  if (Number.isNaN(date.getTime())) return String(moment)
  const day = { day: 'numeric', month: 'short', year: 'numeric' } as const
  const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const
  const parts = what === 'day' ? day : what === 'clock' ? clock : { ...day, ...clock }
  return new Intl.DateTimeFormat('en-GB', { ...parts, timeZone: project.value.timezone }).format(
    date,
  )
}

/** Returns a moment in the time zone of the project, as `2026-01-31 14:05:09`, for comparisons and file names. */
export function wallTime(moment: string | number): string {
  return new Date(moment).toLocaleString('sv', { timeZone: project.value.timezone })
}

/** Formats how long ago a moment was, such as 5m ago. After a week, it shows the day instead. */
export function ago(moment: string | null | undefined, nowMs = Date.now()): string {
  if (moment == null) return 'never'
  const passed = (nowMs - Date.parse(moment)) / 1000
  if (Number.isNaN(passed)) return moment
  if (passed < 5) return 'now'
  return passed > 604_800 ? time(moment, 'day') : `${seconds(passed).split(' ')[0]} ago`
}

/** Formats any JSON value as one line of text. */
export function plain(value: unknown): string {
  if (value === undefined) return ''
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/**
 * Returns the value that the text of a form field stands for: parsed JSON if the text is JSON, otherwise the text
 * itself.
 */
export function parsed(words: string): unknown {
  try {
    return JSON.parse(words)
  } catch {
    return words
  }
}
