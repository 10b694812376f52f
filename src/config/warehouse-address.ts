/** The address of a warehouse as operators write it: `http://user:password@host:8123/database`. */

/** Where ClickHouse listens, and who asks. */
export interface WarehouseAddress {
  /** Without user, password and database. */
  readonly origin: string
  /** Default `default`. */
  readonly database: string
  /** The header of that name; null: ClickHouse's default user. */
  readonly authorization: string | null
}

const DATABASE = /^[A-Za-z_]\w{0,63}$/
/** A percent sign that begins no two digits. */
const BAD_ESCAPE = /%(?![0-9A-Fa-f]{2})/

/** The parts of an address; null when it is none. */
export function parseWarehouse(text: string): WarehouseAddress | null {
  if (!URL.canParse(text) || BAD_ESCAPE.test(text)) return null
  const { protocol, username, password, host, origin, pathname, search, hash } = new URL(text)
  const database = pathname.slice(1) === '' ? 'default' : pathname.slice(1)
  const isHttp = protocol === 'http:' || protocol === 'https:'
  if (!isHttp || host === '' || search !== '' || hash !== '' || !DATABASE.test(database)) {
    return null
  }
  const credentials = Buffer.concat([username, ':', password].map(unescaped))
  const authorization = username === '' ? null : `Basic ${credentials.toString('base64')}`
  return { origin, database, authorization }
}

/** The place and the database of an address, which may be shown, such as `host:8123/database`; null when it is none. */
export function warehouseName(text: string): string | null {
  const parsed = parseWarehouse(text)
  return parsed === null ? null : `${new URL(parsed.origin).host}/${parsed.database}`
}

/** Bytes of a text in which percent signs stand for bytes, which need not be UTF-8. */
function unescaped(text: string): Buffer {
  const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  )
  return Buffer.from(bytes, 'latin1')
}
