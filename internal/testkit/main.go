package testkit

// M runs the tests of a package, as [testing.M] does.
type M interface{ Run() int }

// InMemory makes tests keep their temporary files in memory if the machine has room there: a test's
// server makes and removes hundreds of files, which on a disk would cost more than all its other
// work. TMPDIR overrides it.
func InMemory(m M) M { return inMemory{m} }

type inMemory struct{ M }

func (m inMemory) Run() int {
	defer enter()()
	return m.M.Run()
}
