package testkit

// M runs the tests of a package, as [testing.M] does.
type M interface{ Run() int }

// InMemory has tests keep their temporary files in memory where the machine has room there: a server of a test makes and
// removes hundreds of files, and on a disk that costs more than all else it does. TMPDIR overrules it.
func InMemory(m M) M { return inMemory{m} }

type inMemory struct{ M }

func (m inMemory) Run() int {
	defer enter()()
	return m.M.Run()
}
