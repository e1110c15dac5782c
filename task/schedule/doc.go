// Package schedule holds the rules of schedules as pure functions: which ticks a
// definition has, when each fires and why, what a tick becomes when earlier tasks
// run or time was lost. It reads no clock; zones come from the IANA database, which is built in.
package schedule
