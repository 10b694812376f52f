/** Listens for the signals that stop a daemon. */
import type { CommandIo } from './command.ts'

/** A request to stop, which may arrive at any time. */
export interface StopRequest {
  readonly requested: Promise<void>
  /** Requests the stop from within the process. */
  request(): void
  /** Stops listening. */
  forget(): void
}

/** Starts to listen, also during the start of a daemon. A second signal ends the process at once. */
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
