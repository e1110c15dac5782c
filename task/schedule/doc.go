// Package schedule holds the rules of schedules as pure functions: which ticks a definition has,
// when each is due and why, and the decision on a tick when earlier tasks run or time was lost. It
// also has calendars and windows. It reads no clock and starts no timer; time zones come from the
// IANA database, which is built in.
package schedule
