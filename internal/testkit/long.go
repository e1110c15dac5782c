package testkit

import "flag"

// Long asks for more than the usual.
var Long = flag.Bool("long", false, "kill more processes, run more tasks meanwhile, type more scripts and pages, and try more cases")

// Size returns how much of something a test does: quick, or with -long all of it.
func Size[T any](quick, all T) T {
	if *Long {
		return all
	}
	return quick
}
