/**
 * Reads times as clients write them and returns milliseconds since 1970 in UTC. Ingestion, imports, parameters and the
 * dates of flag filters all use this parser. It reads neither a clock nor the time zone of the machine: a missing zone
 * means UTC unless the caller specifies another one. It runs once for each event, so the usual form has a fast path
 * that allocates nothing. Unusual forms are tried last. Source: docs/compatibility/events.md, "Time".
 */
import { TIME_CHARACTERS_MAX } from './limits.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const DAYS_BEFORE_MONTH = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
const DAYS_OF_MONTH = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const MONTH_NAMES = [
  'january',
  'february',
  'march',
  'april',
  'may',
  'june',
  'july',
  'august',
  'september',
  'october',
  'november',
  'december',
]
const WEEKDAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']
const WEEKDAY_NAMES = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday']
/**
 * The zone names that mean the same everywhere, and the zone names of RFC 2822. `IST` and `BST` are ambiguous and
 * therefore missing.
 */
const ZONE_HOURS = new Map([
  ['ut', 0],
  ['utc', 0],
  ['gmt', 0],
  ['z', 0],
  ['est', -5],
  ['edt', -4],
  ['cst', -6],
  ['cdt', -5],
  ['mst', -7],
  ['mdt', -6],
  ['pst', -8],
  ['pdt', -7],
  ['wet', 0],
  ['west', 1],
  ['cet', 1],
  ['cest', 2],
  ['eet', 2],
  ['eest', 3],
  ['msk', 3],
  ['jst', 9],
])
/** Year, month and day between two equal separators. Month and day have one or two digits, or the month is a name. */
const YEAR_FIRST = /^(\d{4})([-/.])(\d{1,2}|[a-z]{3,9})\2(\d{1,2})(?!\d)/i
/** Month, day and year, as spreadsheets of the United States write them. */
const MONTH_FIRST = /^(\d{1,2})\/(\d{1,2})\/(\d{4}|\d{2})(?!\d)/
/** Examples are `1 May 2024`, `01-May-24`, `1st of May, 2024` and `01/May/2024`. */
const DAY_AND_NAME =
  /^(\d{1,2})(?:st|nd|rd|th)?(?: of)?[ \-/]([a-z]{3,9})\.?,?[ \-/](\d{4}|\d{2})(?!\d)/i
/**
 * Examples are `May 1, 2024`, `May 1 2024` and `May 1, 24`. Two digits are a year only at the end or before a time of
 * day, because those of `May 1, 12 UTC` may be an hour.
 */
const NAME_AND_DAY =
  /^([a-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4})(?![\d:])|, (\d{2})(?=$|,? (?:at )?\d{1,2}:))/i
/** A date and an optional time of day in Chinese or Japanese, such as `2024年5月1日12时30分05秒`. */
const EAST_ASIAN =
  /^(\d{4})年(\d{1,2})月(\d{1,2})日(?: ?(\d{1,2})[时時](\d{1,2})分(?:(\d{1,2})秒)?$)?/
/**
 * An example is `May 1 12:30:05 2024`, with a zone before or after the year. `date`, `ctime` and similar programs print
 * this form.
 */
const YEAR_LAST =
  /^([a-z]{3,9}) {1,2}(\d{1,2}) (\d{1,2}:\d{2}:\d{2}(?:\.\d+)?)(?: ([a-z]{1,5}|[+-]\d{2}:?\d{2}))? (\d{4})(?: ([+-]\d{2}:?\d{2}|[a-z]{1,5}))?$/i
const WEEKDAY = /^([a-z]{3,9})\.?,? /i
/** Year, month, day and time without separators, such as `20240501T123005Z`. */
const COMPACT = /^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})?/i
const CLOCK = /^(\d{1,2}):(\d{2})(?::(\d{2}))?/
const FRACTION = /^[.,](\d{1,3})\d*/
const HALF_OF_DAY = /^ ?([ap])\.?m\b\.?/i
/**
 * The text that may follow the time of day: an offset, a zone name or both, and remarks about the zone. A browser
 * writes the name of the zone in the language of its user, in parentheses.
 */
const ZONE =
  /^ ?(?:\(?(utc|gmt|ut|z) ?(?=[+-]))?([+-]\d{1,2}(?::?\d{2})?)?(?: ?\(?([a-z]{1,5})\)?)?(?: ?(\([^()]{1,60}\)|\[[a-z0-9_+\-/]{1,40}\]))?(?: m=[+-][\d.]+)?$/i
/**
 * A remark in parentheses that may follow a zone name without an offset. It has no digits, because a remark such as
 * `UTC+8` may contradict the name. After a name of `AMERICAN_ZONE`, only an `AMERICAN_REMARK` is accepted.
 */
const REMARK_WITHOUT_OFFSET = /^[a-z .-]{1,40}$/
/**
 * The abbreviation of a zone, such as `BST`. A remark that is an abbreviation, but not a key of `ZONE_HOURS`, is
 * refused, because its zone is unknown.
 */
const UNKNOWN_ABBREVIATION = /^[a-z]{2,4}t$/
/**
 * Each row has a pattern of zone names, and a pattern of the long names of the same zones, in English and on Windows. A
 * remark that ends with ` time` must be a long name of the zone name before it.
 */
const ENGLISH_NAMES: readonly (readonly [RegExp, RegExp])[] = [
  [/^(?:utc?|z|gmt)$/, /^(?:(?:coordinated )?universal|greenwich mean|gmt standard) time$/],
  [/^west?$/, /^western european (?:standard |summer |daylight )?time$/],
  [
    /^cest?$/,
    /^(?:central europe(?:an)?|romance|w\. europe) (?:standard |summer |daylight )?time$/,
  ],
  [/^eest?$/, /^(?:eastern european|e\. europe|fle|gtb) (?:standard |summer |daylight )?time$/],
  [/^msk$/, /^(?:moscow|russian) (?:standard )?time$/],
  [/^jst$/, /^(?:japan|tokyo) (?:standard )?time$/],
]
/**
 * The zone names that RFC 2822 defines as zones of North America. Elsewhere they may mean other zones, such as `CST` in
 * China.
 */
const AMERICAN_ZONE = /^[ecmp][sd]t$/
/** A remark in parentheses that says in which zone of North America a time is. */
const AMERICAN_REMARK =
  /^(?:(?:us|canada) )?(eastern|central|mountain|pacific) (?:(standard|daylight) )?time$/
/**
 * Each row has a pattern of zone names, and a pattern of the names in the IANA database that may follow them in
 * brackets, such as `CET[Europe/Paris]`. The names are listed here because the parser must give the same result with
 * every version of the database. `America/Havana` is missing: its `CST` is another zone.
 */
const IANA_NAMES: readonly (readonly [RegExp, RegExp])[] = [
  [
    /^e[sd]t$/,
    /^(?:(?:us|canada)\/eastern|us\/(?:michigan|east-indiana)|america\/(?:new_york|detroit|toronto|montreal|nipigon|thunder_bay|iqaluit|pangnirtung|atikokan|coral_harbour|louisville|fort_wayne|indianapolis|kentucky\/.+|indiana\/(?!knox|tell_city).+|nassau|port-au-prince|grand_turk|jamaica|panama|cayman|cancun))$/,
  ],
  [
    /^c[sd]t$/,
    /^(?:(?:us|canada)\/central|us\/indiana-starke|canada\/saskatchewan|america\/(?:chicago|menominee|knox_in|indiana\/(?:knox|tell_city)|north_dakota\/.+|winnipeg|rainy_river|rankin_inlet|resolute|regina|swift_current|mexico_city|merida|monterrey|matamoros|bahia_banderas|chihuahua|ojinaga|belize|costa_rica|el_salvador|guatemala|managua|tegucigalpa))$/,
  ],
  [
    /^m[sd]t$/,
    /^(?:(?:us|canada)\/mountain|us\/arizona|canada\/yukon|america\/(?:denver|boise|shiprock|phoenix|edmonton|yellowknife|inuvik|cambridge_bay|creston|dawson_creek|fort_nelson|dawson|whitehorse|hermosillo|mazatlan|ciudad_juarez|chihuahua|ojinaga))$/,
  ],
  [
    /^p[sd]t$/,
    /^(?:(?:us|canada)\/pacific|canada\/yukon|america\/(?:los_angeles|vancouver|tijuana|ensenada|santa_isabel|dawson|whitehorse))$/,
  ],
  [
    /^(?:utc?|z|gmt)$/,
    /^(?:(?:etc\/)?(?:utc|uct|gmt(?:[+-]?0)?|zulu|universal|greenwich)|z|europe\/(?:london|belfast|guernsey|isle_of_man|jersey|dublin|lisbon)|gb|eire|iceland|portugal|(?:africa|atlantic)\/.+|america\/danmarkshavn|antarctica\/troll)$/,
  ],
  [/^west?$/, /^(?:wet|portugal|(?:europe|africa|atlantic)\/.+)$/],
  [/^cest?$/, /^(?:cet|met|poland|(?:europe|africa|arctic|atlantic)\/.+)$/],
  [
    /^eest?$/,
    /^(?:eet|egypt|israel|libya|turkey|(?:europe|africa)\/.+|asia\/(?:amman|beirut|damascus|famagusta|gaza|hebron|istanbul|jerusalem|nicosia|tel_aviv))$/,
  ],
  [/^msk$/, /^(?:w-su|europe\/(?:moscow|simferopol|kirov|volgograd|samara))$/],
  [/^jst$/, /^(?:japan|asia\/tokyo)$/],
]
/**
 * An offset that follows a date without a time of day, such as `+02:00`. An offset with a minus sign is not accepted,
 * because a minus sign after a date more likely separates the date from a time.
 */
const DATE_OFFSET = /^\+\d{2}:\d{2}$/
const SECONDS_WITH_FRACTION = /^\d{10}\.\d+$/
const MILLISECONDS_WITH_FRACTION = /^\d{13}\.\d+$/

/** The earliest moment that a year of four digits can express: 0000-01-01, in milliseconds. */
export const MOMENT_MS_MIN = -62_167_219_200_000
/** The latest moment that a year of four digits can express: the last millisecond of 9999. */
export const MOMENT_MS_MAX = 253_402_300_799_999

/** Converts a local wall-clock time, given in milliseconds as if it were UTC, into a moment. */
export type WallToMoment = (wallMs: number) => number

const asUtc: WallToMoment = (wallMs) => wallMs

/**
 * Returns a moment in milliseconds. The value is a text that `parseTimeText` reads, or a count since 1970 of 10, 13, 16
 * or 19 digits (seconds, milliseconds, microseconds, nanoseconds) as text or number. Seconds and milliseconds may have
 * decimals. Digits beyond milliseconds are cut. Returns null for every other value and for days that do not exist.
 * Source: docs/compatibility/events.md, "Time".
 */
export function parseTimestamp(value: unknown): number | null {
  if (typeof value === 'string') return parseText(value)
  return typeof value === 'number' ? parseCount(value) : null
}

function parseText(text: string): number | null {
  let ms = parseUsualForm(text)
  if (Number.isNaN(ms)) ms = parseIso(text, asUtc)
  if (Number.isNaN(ms)) ms = parseDigits(text.trim())
  if (Number.isNaN(ms)) ms = parseUnusual(text, asUtc)
  return boundedMoment(ms)
}

/**
 * Reads a moment from ISO 8601 (calendar, week or ordinal date, with or without a time), RFC 2822, or one of the forms
 * that programs, databases and spreadsheets print. A text without a zone is converted by `wallToMoment`. A count
 * without decimals, such as `1714564800`, is not read. Returns null for every other text.
 */
export function parseTimeText(text: string, wallToMoment: WallToMoment): number | null {
  let ms = parseIso(text, wallToMoment)
  if (Number.isNaN(ms)) ms = parseUnusual(text, wallToMoment)
  return boundedMoment(ms)
}

function boundedMoment(ms: number): number | null {
  return ms >= MOMENT_MS_MIN && ms <= MOMENT_MS_MAX ? ms : null
}

/** Reads `YYYY-MM-DDThh:mm:ss.sssZ`. Returns NaN for every other text. */
function parseUsualForm(text: string): number {
  if (text.length !== 24 || text.charCodeAt(23) !== 0x5a || text.charCodeAt(19) !== 0x2e)
    return Number.NaN
  if (text.charCodeAt(10) !== 0x54 || text.charCodeAt(4) !== 0x2d || text.charCodeAt(7) !== 0x2d) {
    return Number.NaN
  }
  const days = calendarDays(digitsAt(text, 0, 4), digitsAt(text, 5, 2), digitsAt(text, 8, 2))
  return days * DAY_MS + clockMs(text, 11, 23)
}

/** Does the same as `parseUsualForm`, for the 24 bytes from `start`, so that the caller need not create a string. */
export function usualMomentAt(bytes: Uint8Array, start: number): number {
  if (bytes[start + 23] !== 0x5a || bytes[start + 19] !== 0x2e || bytes[start + 10] !== 0x54) {
    return Number.NaN
  }
  if (bytes[start + 4] !== 0x2d || bytes[start + 7] !== 0x2d) return Number.NaN
  if (bytes[start + 13] !== 0x3a || bytes[start + 16] !== 0x3a) return Number.NaN
  const hours = digitsIn(bytes, start + 11, 2)
  const minutes = digitsIn(bytes, start + 14, 2)
  const seconds = digitsIn(bytes, start + 17, 2)
  if (!(hours < 24) || !(minutes < 60) || !(seconds < 60)) return Number.NaN
  const year = digitsIn(bytes, start, 4)
  const days = calendarDays(year, digitsIn(bytes, start + 5, 2), digitsIn(bytes, start + 8, 2))
  const clock = hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS
  return days * DAY_MS + clock + digitsIn(bytes, start + 20, 3)
}

/** Reads a time in one of the ISO 8601 forms. Returns NaN for every other text. */
function parseIso(text: string, wallToMoment: WallToMoment): number {
  if (text.length < 8 || text.length > 40 || text.charCodeAt(4) !== 0x2d) return Number.NaN
  const year = digitsAt(text, 0, 4)
  let days = Number.NaN
  let dateEnd = 10
  if (text.charCodeAt(5) === 0x57) {
    if (text.charCodeAt(8) === 0x2d)
      days = weekDays(year, digitsAt(text, 6, 2), digitsAt(text, 9, 1))
  } else if (text.charCodeAt(7) === 0x2d) {
    days = calendarDays(year, digitsAt(text, 5, 2), digitsAt(text, 8, 2))
  } else {
    days = ordinalDays(year, digitsAt(text, 5, 3))
    dateEnd = 8
  }
  if (text.length === dateEnd) return momentOrNaN(days * DAY_MS, wallToMoment)
  const separator = text.charCodeAt(dateEnd)
  if (separator !== 0x54 && separator !== 0x74 && separator !== 0x20) return Number.NaN
  const clockStart = dateEnd + 1
  let clockEnd = clockStart
  while (clockEnd < text.length && isClockUnit(text.charCodeAt(clockEnd))) clockEnd++
  const wallMs = days * DAY_MS + clockMs(text, clockStart, clockEnd)
  if (clockEnd === text.length) return momentOrNaN(wallMs, wallToMoment)
  return wallMs - zoneMs(text, clockEnd, text.length)
}

function momentOrNaN(wallMs: number, wallToMoment: WallToMoment): number {
  return Number.isNaN(wallMs) ? Number.NaN : wallToMoment(wallMs)
}

/** Returns the milliseconds of `hh:mm`, `hh:mm:ss` or `hh:mm:ss.f` with 1 to 9 fraction digits, otherwise NaN. */
function clockMs(text: string, start: number, end: number): number {
  const length = end - start
  if (length !== 5 && length !== 8 && (length < 10 || length > 18)) return Number.NaN
  const hours = digitsAt(text, start, 2)
  const minutes = digitsAt(text, start + 3, 2)
  if (text.charCodeAt(start + 2) !== 0x3a || !(hours < 24) || !(minutes < 60)) return Number.NaN
  let ms = hours * HOUR_MS + minutes * MINUTE_MS
  if (length === 5) return ms
  const seconds = digitsAt(text, start + 6, 2)
  if (text.charCodeAt(start + 5) !== 0x3a || !(seconds < 60)) return Number.NaN
  ms += seconds * SECOND_MS
  if (length === 8) return ms
  if (text.charCodeAt(start + 8) !== 0x2e) return Number.NaN
  const fractionDigits = length - 9
  const fraction = digitsAt(text, start + 9, fractionDigits)
  return ms + Math.floor((fraction * SECOND_MS) / 10 ** fractionDigits)
}

/**
 * Returns the distance of a zone from UTC in milliseconds, positive to the east. The zone is '', `Z`, `±hh`, `±hhmm` or
 * `±hh:mm`. Returns NaN for every other text.
 */
function zoneMs(text: string, start: number, end: number): number {
  const length = end - start
  if (length === 0) return 0
  const first = text.charCodeAt(start)
  if (length === 1) return first === 0x5a || first === 0x7a ? 0 : Number.NaN
  if (first !== 0x2b && first !== 0x2d) return Number.NaN
  const hours = digitsAt(text, start + 1, 2)
  let minutes = 0
  if (length === 5) minutes = digitsAt(text, start + 3, 2)
  else if (length === 6 && text.charCodeAt(start + 3) === 0x3a)
    minutes = digitsAt(text, start + 4, 2)
  else if (length !== 3) return Number.NaN
  if (!(hours < 24) || !(minutes < 60)) return Number.NaN
  const ms = hours * HOUR_MS + minutes * MINUTE_MS
  return first === 0x2d ? -ms : ms
}

/** Returns the number of days from 1970-01-01 to a calendar day, or NaN if the day does not exist. */
function calendarDays(year: number, month: number, day: number): number {
  if (!(month >= 1 && month <= 12) || !(day >= 1)) return Number.NaN
  const isLateInLeapYear = month > 2 && isLeapYear(year)
  const isFebruary29 = month === 2 && day === 29 && isLeapYear(year)
  if (day > (DAYS_OF_MONTH[month - 1] ?? 0) && !isFebruary29) return Number.NaN
  return (
    daysBeforeYear(year) + (DAYS_BEFORE_MONTH[month - 1] ?? 0) + (isLateInLeapYear ? day : day - 1)
  )
}

function ordinalDays(year: number, dayOfYear: number): number {
  if (!(dayOfYear >= 1) || dayOfYear > (isLeapYear(year) ? 366 : 365)) return Number.NaN
  return daysBeforeYear(year) + dayOfYear - 1
}

function weekDays(year: number, week: number, weekday: number): number {
  if (!(week >= 1 && week <= 53) || !(weekday >= 1 && weekday <= 7)) return Number.NaN
  const days = firstMonday(year) + (week - 1) * 7 + weekday - 1
  return week === 53 && firstMonday(year) + 52 * 7 === firstMonday(year + 1) ? Number.NaN : days
}

/** Returns the first day of week 1 of a year in days since 1970: the Monday of the week that contains 4 January. */
function firstMonday(year: number): number {
  const january4 = daysBeforeYear(year) + 3
  return january4 - weekdayIndex(january4)
}

/** Returns the day of the week of a day since 1970. 0 is Monday. */
function weekdayIndex(days: number): number {
  return (((days + 3) % 7) + 7) % 7
}

function daysBeforeYear(year: number): number {
  const last = year - 1
  return (
    last * 365 + Math.floor(last / 4) - Math.floor(last / 100) + Math.floor(last / 400) - 719_162
  )
}

function isLeapYear(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

function parseDigits(text: string): number {
  const length = text.length
  if (length !== 10 && length !== 13 && length !== 16 && length !== 19) return Number.NaN
  const wholeMs = digitsAt(text, 0, 10) * SECOND_MS
  if (length === 10) return wholeMs
  // Digits after the milliseconds are ignored, but other characters are refused.
  return Number.isNaN(digitsAt(text, 13, length - 13))
    ? Number.NaN
    : wholeMs + digitsAt(text, 10, 3)
}

function parseCount(count: number): number | null {
  if (count >= 1e9 && count < 1e10) return Math.floor(count * SECOND_MS)
  if (count >= 1e12 && count < 1e13) return Math.floor(count)
  if (!Number.isInteger(count)) return null
  if (count >= 1e15 && count < 1e16) return Math.floor(count / 1e3)
  return count >= 1e18 && count < 1e19 ? msOfNanoseconds(count) : null
}

/**
 * Returns the whole milliseconds of a number of nanoseconds. A double of this size is up to 128 nanoseconds off. If
 * `count` equals the double nearest to a whole millisecond, the result is this millisecond, although the number that
 * the client sent may have been slightly less.
 */
function msOfNanoseconds(count: number): number {
  const nearest = Math.round(count / 1e6)
  return nearest * 1e6 > count ? nearest - 1 : nearest
}

/** A date that `parseUnusual` has read, in days since 1970, and the text that follows it. */
interface WrittenDate {
  readonly days: number
  readonly rest: string
}

/**
 * Reads forms other than ISO 8601: with other separators, in another order, with names of months and zones, extra
 * spaces, numbers of one digit, the leap second 60, or any number of decimals. Returns NaN for every other text. It is
 * slow, so it runs only for texts that the other parsers have not read.
 */
function parseUnusual(given: string, wallToMoment: WallToMoment): number {
  if (given.length > TIME_CHARACTERS_MAX) return Number.NaN
  // Some programs write a minus sign (U+2212) instead of a hyphen.
  let text = given.trim().replace(/\s+/g, ' ').replaceAll('\u2212', '-')
  if (SECONDS_WITH_FRACTION.test(text)) return Math.floor(Number(text) * SECOND_MS)
  if (MILLISECONDS_WITH_FRACTION.test(text)) return Math.floor(Number(text))
  let weekday = -1
  const named = WEEKDAY.exec(text)
  if (named !== null) {
    weekday = indexOfName(named[1] ?? '', WEEKDAYS, WEEKDAY_NAMES)
    if (weekday >= 0) text = text.slice(named[0].length)
  }
  const date = writtenDate(text)
  if (date === null || Number.isNaN(date.days)) return Number.NaN
  if (weekday >= 0 && weekdayIndex(date.days) !== weekday) return Number.NaN
  return withClock(date, wallToMoment)
}

function writtenDate(text: string): WrittenDate | null {
  const yearFirst = YEAR_FIRST.exec(text)
  if (yearFirst !== null) {
    const [whole, year, , month = '', day] = yearFirst
    const days = calendarDays(Number(year), monthOf(month), Number(day))
    return { days, rest: text.slice(whole.length) }
  }
  const compact = COMPACT.exec(text)
  if (compact !== null) {
    const [whole, year, month, day, hour, minute, second = '00'] = compact
    const days = calendarDays(Number(year), Number(month), Number(day))
    return { days, rest: ` ${hour}:${minute}:${second}${text.slice(whole.length)}` }
  }
  const monthFirst = MONTH_FIRST.exec(text)
  if (monthFirst !== null) {
    const [whole, month, day, year = ''] = monthFirst
    const days = calendarDays(fullYear(year), Number(month), Number(day))
    return { days, rest: text.slice(whole.length) }
  }
  const dayAndName = DAY_AND_NAME.exec(text)
  if (dayAndName !== null) {
    const [whole, day, month = '', year = ''] = dayAndName
    const days = calendarDays(fullYear(year), monthOf(month), Number(day))
    // Logs of web servers have a colon between date and time.
    return { days, rest: text.slice(whole.length).replace(/^:/, ' ') }
  }
  const nameAndDay = NAME_AND_DAY.exec(text)
  if (nameAndDay !== null) {
    const [whole, month = '', day, year, shortYear = ''] = nameAndDay
    const days = calendarDays(fullYear(year ?? shortYear), monthOf(month), Number(day))
    return { days, rest: text.slice(whole.length) }
  }
  const eastAsian = EAST_ASIAN.exec(text)
  if (eastAsian !== null) {
    const [whole, year, month, day, hour, minute, second = '00'] = eastAsian
    const days = calendarDays(Number(year), Number(month), Number(day))
    const clock =
      hour === undefined ? '' : ` ${hour}:${minute?.padStart(2, '0')}:${second.padStart(2, '0')}`
    return { days, rest: clock + text.slice(whole.length) }
  }
  const yearLast = YEAR_LAST.exec(text)
  if (yearLast === null) return null
  const [, month = '', day, clock, zone, year, lastZone] = yearLast
  if (zone !== undefined && lastZone !== undefined) return null
  const days = calendarDays(Number(year), monthOf(month), Number(day))
  return { days, rest: ` ${clock} ${zone ?? lastZone ?? ''}`.trimEnd() }
}

/**
 * Returns the moment of a date, with the time of day and the zone in the text that follows it. A date alone means its
 * midnight.
 */
function withClock({ days, rest }: WrittenDate, wallToMoment: WallToMoment): number {
  let text = rest.replace(/^(?:,? ?at |T(?=\d)|, |,| )/i, '')
  let wallMs = days * DAY_MS
  const clock = CLOCK.exec(text)
  if (clock !== null) {
    // A time of day must be separated from the date.
    if (text.length === rest.length) return Number.NaN
    const [whole, hourText, minuteText, secondText = '0'] = clock
    text = text.slice(whole.length)
    let hour = Number(hourText)
    const [minute, second] = [Number(minuteText), Number(secondText)]
    const fraction = clock[3] === undefined ? null : FRACTION.exec(text)
    if (fraction !== null) {
      text = text.slice(fraction[0].length)
      wallMs += Number((fraction[1] ?? '').padEnd(3, '0'))
    }
    const half = HALF_OF_DAY.exec(text)
    if (half !== null) {
      if (hour < 1 || hour > 12) return Number.NaN
      text = text.slice(half[0].length)
      hour = (hour % 12) + (half[1]?.toLowerCase() === 'p' ? 12 : 0)
    }
    wallMs += hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS
    // In ISO 8601, 24:00 is the midnight at the end of the day.
    const isEndOfDay = hour === 24 && wallMs === (days + 1) * DAY_MS
    // A leap second counts as the first second of the next minute, as in every clock that counts from 1970.
    if ((hour > 23 && !isEndOfDay) || minute > 59 || second > 60) return Number.NaN
  } else if (/^[+-]/.test(text) && !DATE_OFFSET.test(text)) return Number.NaN
  if (text === '') return wallToMoment(wallMs)
  return wallMs - writtenZoneMs(text)
}

/**
 * Returns the distance of a zone from UTC in milliseconds, positive to the east. The zone is an offset, a zone name, or
 * an offset with the name next to it. Returns NaN for every other text.
 */
function writtenZoneMs(text: string): number {
  const match = ZONE.exec(text)
  if (match === null) return Number.NaN
  const [, prefix, offset, name, remark] = match
  if (offset === undefined) {
    const zone = (name ?? '').toLowerCase()
    if (remark !== undefined && !isRemarkOf(zone, remark)) return Number.NaN
    return (ZONE_HOURS.get(zone) ?? Number.NaN) * HOUR_MS
  }
  const [hours = '', minutes] = offset.slice(1).split(':')
  // `UTC+2` is common, but `+2` alone may mean anything.
  if (hours.length === 1 && prefix === undefined) return Number.NaN
  const digits = minutes === undefined ? hours : hours.padStart(2, '0') + minutes
  const padded = digits.length === 1 ? `0${digits}` : digits
  return zoneMs(offset.slice(0, 1) + padded, 0, padded.length + 1)
}

/**
 * Returns whether a remark fits the zone name before it. Returns false if the remark could mean another zone, because
 * the time is then ambiguous. The zone name is in lower case.
 */
function isRemarkOf(zone: string, remark: string): boolean {
  const text = remark.slice(1, -1).toLowerCase()
  if (remark.startsWith('[')) return isNameOf(zone, text, IANA_NAMES)
  if (AMERICAN_ZONE.test(zone)) {
    const match = AMERICAN_REMARK.exec(text)
    if (match === null) return false
    const [, region = zone, season = zone.slice(1)] = match
    return region.charAt(0) === zone.charAt(0) && season.charAt(0) === zone.charAt(1)
  }
  if (!REMARK_WITHOUT_OFFSET.test(text)) return false
  const hours = ZONE_HOURS.get(text)
  if (hours !== undefined) return hours === ZONE_HOURS.get(zone)
  if (UNKNOWN_ABBREVIATION.test(text)) return false
  return !text.endsWith(' time') || isNameOf(zone, text, ENGLISH_NAMES)
}

/**
 * Returns whether `name` is a name of the zone `zone`. Each row of the table has a pattern of zones and a pattern of
 * their names.
 */
function isNameOf(
  zone: string,
  name: string,
  table: readonly (readonly [RegExp, RegExp])[],
): boolean {
  return table.some(([zones, names]) => zones.test(zone) && names.test(name))
}

function monthOf(text: string): number {
  const number = Number(text)
  return Number.isNaN(number) ? indexOfName(text, MONTHS, MONTH_NAMES) + 1 : number
}

/** Returns the index of a name in its short or long form, regardless of case. Returns -1 if it is not a name. */
function indexOfName(text: string, short: readonly string[], long: readonly string[]): number {
  const name = text.toLowerCase()
  const index = short.indexOf(name === 'sept' ? 'sep' : name)
  return index >= 0 ? index : long.indexOf(name)
}

/** Expands a year. Two digits mean a year from 1950 to 2049. */
function fullYear(year: string): number {
  const number = Number(year)
  if (year.length > 2) return number
  return number + (number < 50 ? 2000 : 1900)
}

/** Returns the number that `count` decimal digits at `start` stand for, or NaN if one of them is not a digit. */
function digitsAt(text: string, start: number, count: number): number {
  let value = 0
  for (let position = start; position < start + count; position++) {
    const digit = text.charCodeAt(position) - 0x30
    if (!(digit >= 0 && digit <= 9)) return Number.NaN
    value = value * 10 + digit
  }
  return value
}

function digitsIn(bytes: Uint8Array, start: number, count: number): number {
  let value = 0
  for (let position = start; position < start + count; position++) {
    const digit = (bytes[position] ?? 0) - 0x30
    if (!(digit >= 0 && digit <= 9)) return Number.NaN
    value = value * 10 + digit
  }
  return value
}

function isClockUnit(unit: number): boolean {
  return (unit >= 0x30 && unit <= 0x3a) || unit === 0x2e
}
