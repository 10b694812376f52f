/** Listens for the signals that stop a daemon. */
import type { CommandIo } from './command.ts'

/** A request to stop the daemon, which may come at any time. */
export interface StopRequest {
  readonly requested: Promise<void>
  /** Requests the stop, as a signal does. */
  request(): void
  /** Stops listening. */
  forget(): void
}

/**
 * Starts to listen for signals. Call it before the daemon starts, so that its start can be stopped too. A second signal
 * ends the process at once.
 */
export function watchStopSignals(io: CommandIo): StopRequest {
  let isRequested = false
  let resolveRequest: () => void = () => {}
  const requested = new Promise<void>((resolve) => {
    resolveRequest = resolve
  })
  const request = (): void => {
    isRequested = true
    resolveRequest()
  }
  const forget = io.onStopSignal(() => {
    if (isRequested) io.exitNow(1)
    request()
  })
  return { requested, request, forget }
}
