// Package whatif makes every decision of a log again under other settings, by the rule of package verify that
// makes it again under its own, and says what would have been different, when, and what follows. Where the world would have
// gone another way nothing is guessed: it says from where on that is unknown, and for which tasks.
//
// It reads no clock, does no I/O and writes nothing.
package whatif
