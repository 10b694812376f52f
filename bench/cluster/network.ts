/**
 * The networks of the machines in a cluster. If this process is root and iproute2 is installed, each machine has its
 * own network. Such a network has a link to the other machines, which can be cut, and another link to the clients.
 * Otherwise all machines use the loopback address, and no link can be cut.
 */

import { spawnSync } from 'node:child_process'
import { freePort } from '../../test/fixtures/free-port.ts'

/** The network of one machine: the command with which programs start in it, and its addresses. */
export interface Place {
  /** The beginning of the command with which a program starts in the network. */
  readonly launcher: readonly string[]
  /** The address at which other machines reach the machine. */
  readonly innerHost: string
  /** The address at which clients reach the machine. */
  readonly outerHost: string
  /** The address at which the machine reaches this process. */
  readonly clientHost: string
  readonly brokerPort: number
  readonly routePort: number
  /** The address of the broker's monitoring port. */
  readonly monitorPort: number
  readonly nodePort: number
}

const BROKER_PORT = 4222
const ROUTE_PORT = 6222
const MONITOR_PORT = 8222
const NODE_PORT = 8080
/**
 * The beginning of the addresses. This network is reserved for network benchmarks (RFC 2544), so it does not collide
 * with others.
 */
const NET = '198.18'

/** The networks of the machines. Call `remove` at the end. */
export class Network {
  readonly places: readonly Place[]
  readonly canCut: boolean
  readonly #name = `tnr${process.pid}`

  private constructor(places: readonly Place[], canCut: boolean) {
    this.places = places
    this.canCut = canCut
    process.once('exit', this.remove)
  }

  /**
   * Creates the networks. If `isTogether` is true, all machines use the loopback address. If a command worked for one
   * machine and fails for another, throws an error.
   */
  static async make(machines: number, isTogether: boolean): Promise<Network> {
    const numbers = Array.from({ length: machines }, (_, index) => index)
    const name = `tnr${process.pid}`
    const canCut = !isTogether && tryRun(`ip netns add ${name}-0`)
    const places = canCut
      ? numbers.map((n) => placeApart(name, n))
      : await Promise.all(numbers.map(placeHere))
    const network = new Network(places, canCut)
    if (canCut) network.#link()
    return network
  }

  /** Disconnects a machine from the others, or reconnects it. */
  cut(index: number, isCut: boolean): void {
    run(`ip link set ${this.#name}i${index} ${isCut ? 'down' : 'up'}`)
  }

  /** Removes the networks. It may be called twice. */
  readonly remove = (): void => {
    process.removeListener('exit', this.remove)
    if (!this.canCut) return
    for (const index of this.places.keys()) tryRun(`ip netns delete ${this.#name}-${index}`)
    tryRun(`ip link delete ${this.#name}b`)
  }

  #link(): void {
    const name = this.#name
    run(`ip link add ${name}b type bridge`)
    run(`ip address add ${NET}.0.254/24 dev ${name}b`)
    run(`ip link set ${name}b up`)
    for (const [index, { innerHost, outerHost, clientHost }] of this.places.entries()) {
      const space = `${name}-${index}`
      const inside = `ip -n ${space}`
      if (index > 0) run(`ip netns add ${space}`)
      run(`${inside} link set lo up`)
      run(`ip link add ${name}i${index} type veth peer name inner netns ${space}`)
      run(`ip link add ${name}o${index} type veth peer name outer netns ${space}`)
      run(`ip link set ${name}i${index} master ${name}b up`)
      run(`ip address add ${clientHost}/30 dev ${name}o${index}`)
      run(`ip link set ${name}o${index} up`)
      run(`${inside} address add ${innerHost}/24 dev inner`)
      run(`${inside} address add ${outerHost}/30 dev outer`)
      run(`${inside} link set inner up`)
      run(`${inside} link set outer up`)
    }
  }
}

function placeApart(name: string, index: number): Place {
  return {
    launcher: ['ip', 'netns', 'exec', `${name}-${index}`],
    innerHost: `${NET}.0.${index + 1}`,
    outerHost: `${NET}.${index + 1}.2`,
    clientHost: `${NET}.${index + 1}.1`,
    brokerPort: BROKER_PORT,
    routePort: ROUTE_PORT,
    monitorPort: MONITOR_PORT,
    nodePort: NODE_PORT,
  }
}

async function placeHere(): Promise<Place> {
  const host = '127.0.0.1'
  return {
    launcher: [],
    innerHost: host,
    outerHost: host,
    clientHost: host,
    brokerPort: await freePort(),
    routePort: await freePort(),
    monitorPort: await freePort(),
    nodePort: await freePort(),
  }
}

function tryRun(command: string): boolean {
  const [program = '', ...words] = command.split(' ')
  return spawnSync(program, words, { stdio: 'ignore' }).status === 0
}

function run(command: string): void {
  if (!tryRun(command)) throw new Error(`failed: ${command}`)
}
