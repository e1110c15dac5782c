// Package whatif makes every decision of a log again under other settings, by the rule of package verify that
// makes it again under its own, and says what would have been different, when, and what follows. Where the world would have
// gone another way nothing is guessed: it says from where on that is unknown, and for which tasks.
//
// A [Player] plays the tasks from such a moment on, by a model of how long attempts run, and says how far that is from what was recorded.
//
// It reads no clock, does no I/O and writes nothing.
package whatif
