/**
 * How V8 collects young objects in this process as rarely as it can, and others before they are many; import it before
 * anything that starts threads.
 *
 * A request leaves some kilobytes of garbage and nothing else. The less often it is collected the less that
 * costs, and while it is collected the front answers nobody, so its thread begins with the largest space for
 * young objects that V8 allows. V8 reads that from the command line only (`--min-semi-space-size`, which
 * `npm start` and the unit of systemd give it); left to itself, it begins with a sixteenth, goes back there
 * whenever traffic pauses, and does not grow for garbage that never survives.
 */
import { setFlagsFromString } from 'node:v8'

// Threads get what V8 or their limits say: each would fill all of it before it collects anything.
setFlagsFromString('--min-semi-space-size=0')
// Helpers of a collection compete with the threads that do the work, and whoever collects waits for them.
setFlagsFromString('--no-parallel-scavenge')
// Some quiet seconds after a start or a rush, V8 goes through a whole heap to give memory back. The front, whose
// requests leave nothing behind, has no other collection of that kind and answers nobody meanwhile: it is started
// with `--no-memory-reducer`. Threads are to give back what a large question took.
setFlagsFromString('--memory-reducer')
// V8 goes through a heap when it has half as much again as lived in it, not several times that: each of a dozen
// threads would keep so much garbage.
setFlagsFromString('--heap-growing-percent=50')
