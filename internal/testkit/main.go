package testkit

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// AtOnce has up to n tests of a package run at once, unless -parallel says otherwise. It is for tests
// that wait for deadlines far more than they compute: as many as processors, which is the default,
// would leave those idle.
func AtOnce(n int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(n)) // n is a number
	}
}

// Later leaves tests out of a run that names none, unless it has -long: they cost most.
func Later(tests ...string) {
	flag.Parse()
	skip, chosen := flag.Lookup("test.skip"), flag.Lookup("test.run")
	if !*Long && chosen.Value.String() == "" && skip.Value.String() == "" {
		_ = skip.Value.Set("^(" + strings.Join(tests, "|") + ")$") // any text is a value
	}
}

// M runs the tests of a package, as [testing.M] does.
type M interface{ Run() int }

// Thrifty makes tests cost less processor time.
//
// They keep their temporary files in memory if the machine has room there: a test's server makes
// and removes hundreds of files, which on a disk would cost more than all its other work. TMPDIR
// overrides it.
//
// They collect garbage a quarter as often as the runtime would: tests make much garbage, and keep
// little. GOGC overrides it.
func Thrifty(m M) M { return thrifty{m} }

type thrifty struct{ M }

// garbage is how much garbage tests may leave, in per cent of what they use.
const garbage = 400

func (m thrifty) Run() int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	defer enter()()
	return m.M.Run()
}
